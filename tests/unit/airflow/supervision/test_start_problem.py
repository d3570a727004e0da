"""Stuck starts are told apart, by what spark-submit really printed (paths and hosts replaced)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.causes import start_problem as known
from sessionizer.causes.start_problem import START_CAUSES, StartProblem, start_problem
from sessionizer.causes.table import CAUSES
from sessionizer.control.records.airflow_records import SupervisionRecord
from sessionizer.control.records.desired_state import Desired, DesiredState
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer_airflow.supervision.decide import GiveUp, Replace, Wait, decide
from sessionizer_airflow.supervision.observe import Situation
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.expected.driver_statuses import driver_status
from support.places import SUPPORT

if TYPE_CHECKING:
    from support.fixtures.reviewed import Reviewed

LOGS = SUPPORT / "start_logs"
NOW = 1_800_000_000_000
PROBLEMS = {
    "no_java": (known.NO_JAVA, "there is no Java"),
    "java_home_elsewhere": (known.NO_JAVA, "there is no Java at /nowhere/java/bin/java"),
    "old_java": (known.OLD_JAVA, "Java is too old (class files up to 52)"),
    "no_memory": (known.NO_MEMORY, "no memory for 94371840000KB of heap"),
    "missing_application": (known.NO_APPLICATION, "there is no application /nowhere/main.py"),
    "missing_jar": (known.NO_JAR, "there is no jar /opt/jars/delta.jar"),
    "no_jars": (known.NO_JAR, "no jar has io.delta.sql.DeltaSparkSessionExtension"),
    "broken_code": (
        known.BROKEN_CODE,
        "its code fails with ModuleNotFoundError: No module named 'sessionizer.cli.application'",
    ),
    "malformed_master": (known.BAD_MASTER, "sparkle://x is no Spark master"),
    "yarn_without_configuration": (
        known.NO_YARN_CONFIGURATION,
        "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
    ),
    "unknown_host": (known.UNREACHABLE, "there is no host no-such-host.invalid"),
    "unreachable_master": (known.UNREACHABLE, "master 127.0.0.1:1 does not answer"),
    "unreachable_yarn": (known.UNREACHABLE, "YARN or its file system does not answer at localhost:1"),
    "unreachable_kubernetes": (
        known.UNREACHABLE,
        "Kubernetes does not answer (Connection refused: /127.0.0.1:1)",
    ),
    "no_workers": (known.NO_RESOURCES, "the cluster gives it no executor"),
}


def driver(problem: StartProblem, state: State) -> DriverStatus:
    then = NOW - 200_000
    return driver_status(state, NOW, launched_ms=then, heard_ms=then, start_problem=problem)


def test_every_log_has_its_problem() -> None:
    assert {file.stem for file in LOGS.glob("*.log")} == set(PROBLEMS)
    assert {cause for cause, _ in PROBLEMS.values()} == set(START_CAUSES)


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_are_told_apart(name: str) -> None:
    assert start_problem((LOGS / f"{name}.log").read_text()) == StartProblem(*PROBLEMS[name])


def test_a_log_without_a_known_symptom() -> None:
    assert start_problem("26/11/21 14:43:49 INFO SparkContext: Running Spark version 4.2.0\n") is None


def test_what_people_must_mend_is_not_tried_again(reviewed: Reviewed) -> None:
    problem = StartProblem(known.OLD_JAVA, "Java is too old")
    decision = decide(_situation(driver(problem, State.VANISHED)), SupervisionRecord(), SupervisionPolicy(), NOW)
    assert isinstance(decision, GiveUp)
    reviewed(decision.reason)
    assert "set JAVA_HOME to Java 17 or 21" in decision.remedy


def test_what_may_pass_is_tried_again_for_as_long_as_it_lasts(reviewed: Reviewed) -> None:
    seen = driver(StartProblem(known.UNREACHABLE, "master one:7077 does not answer"), State.VANISHED)
    policy = SupervisionPolicy()
    assert not isinstance(decide(_situation(seen), SupervisionRecord(), policy, NOW), GiveUp)
    decision = decide(_situation(seen), SupervisionRecord(attempts=99, failures=5), policy, NOW)
    assert isinstance(decision, Wait)
    assert decision.until_ms == NOW + policy.longest_backoff_ms
    reviewed(decision.why)


def test_a_start_that_never_comes_says_what_it_waits_for() -> None:
    seen = driver(StartProblem(known.NO_RESOURCES, "the cluster gives it no executor"), State.STALLED)
    decision = decide(_situation(seen), SupervisionRecord(), SupervisionPolicy(), NOW)
    why = "no batch 200 s after its launch: the cluster gives it no executor"
    assert decision == Replace("abc123", why, CAUSES["no_resources"])


def _situation(seen: DriverStatus) -> Situation:
    return Situation(desired=Desired(DesiredState.RUNNING), driver=seen)
