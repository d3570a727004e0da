"""Whatever a query dies of, its remedy is the same everywhere, and only what a restart cannot help is given up."""

import re
from itertools import product
from pathlib import Path
from string import Formatter
from typing import NamedTuple

import pytest

from sessionizer.causes import cause as known
from sessionizer.causes.cause import KILLED, NO_START, START_CAUSES, StartProblem, name_stream, start_problem
from sessionizer.causes.table import CAUSES, QUERY_CAUSES, QueryCause
from sessionizer.control.lease import write_lease
from sessionizer.control.maintenance import record_failure
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    LAUNCH_FILE,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    LeaseRecord,
)
from sessionizer.control.records.supervision_records import Desired, DesiredState, SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus, State, judge_status
from sessionizer.errors import LineageUnfit, QueryFailed, QueryInterrupted, RetryEffect, SessionizerError
from sessionizer.fleet.finding import HealthWord, StreamHealth
from sessionizer.home.clock import MINUTE, SECOND, epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.failures.query_failure import classify_failure
from sessionizer_airflow.alerting import Alert, AlertKind
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.supervision.decide import (
    Adopt,
    GiveUp,
    Launch,
    Replace,
    Situation,
    Wait,
    decide,
    read_situation,
)
from sessionizer_airflow.supervision.failures import add_failure, failure_of
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.tell import describe
from sessionizer_airflow.supervision.watch import Ledger
from support.expected.driver_statuses import driver_status, judged_stream
from support.expected.told_causes import WORDS
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY, SUPPORT
from support.processes.fabricated_platform import Platform

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
LOG = "/logs/driver.abc123.log"
SIGNS = [(cause, sign) for cause in QUERY_CAUSES for sign in cause.signs or ["something new"]]


def death(home: StreamHome, error: Exception) -> DriverStatus:
    return ended_by(home, classify_failure("clicks", error))


def ended_by(home: StreamHome, error: SessionizerError) -> DriverStatus:
    home.prepare()
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="abc123", at=epoch_ms(), log=LOG))
    record_failure(home, "abc123", error)
    return driver_status(
        State.FAILED,
        NOW,
        present=False,
        launched_ms=NOW - MINUTE,
        heard_ms=NOW,
        batch_id=3,
        lineage="old",
        exit_record=EXIT_FILE.of(home, "abc123").read(),
        log=LOG,
    )


def situation_of(driver: DriverStatus) -> Situation:
    return Situation(desired=Desired(DesiredState.RUNNING), driver=driver)


def test_each_sign_is_known_by_its_cause() -> None:
    for cause, sign in SIGNS:
        error = classify_failure("clicks", RuntimeError(f"[{sign}] so it ended\n at java"))
        ends_driver = cause.name == "lease_lost"  # terminal for the driver, not for the stream
        kind = QueryFailed if cause.verdict is RetryEffect.TERMINAL or ends_driver else QueryInterrupted
        assert isinstance(error, kind), sign
        assert error.cause == cause.name, sign


@pytest.mark.parametrize("cause", QUERY_CAUSES, ids=lambda cause: cause.name)
def test_one_remedy_for_one_cause_everywhere(
    cause: QueryCause, home: StreamHome, tmp_path: Path, alerts: list[Alert]
) -> None:
    sign = cause.signs[0] if cause.signs else "something new"
    driver = death(home, RuntimeError(f"[{sign}] so it ended\n at java"))
    expected = CAUSES[cause.name]
    told = name_stream(expected.remedy, home.name)
    assert driver.exit_record is not None
    assert driver.exit_record.error_type == cause.name
    decision = decide(situation_of(driver), SupervisionRecord(), POLICY, NOW)
    line = describe(decision, situation_of(driver), NOW)
    assert isinstance(decision, GiveUp if expected.verdict is RetryEffect.TERMINAL else Wait)
    assert "\n" not in line
    assert expected.remedy in line
    assert LOG in line

    failure = failure_of(driver)
    assert failure is not None
    ledger = Ledger(home, POLICY, alerts.append)
    assert ledger.note_failure(failure, driver)
    assert not ledger.note_failure(failure, driver), "told once"
    kinds = {
        RetryEffect.TERMINAL: [AlertKind.GAVE_UP],
        RetryEffect.UNCLEAR: [AlertKind.REPLACED],
        RetryEffect.TRANSIENT: [],
    }
    assert [alert.kind for alert in alerts] == kinds[expected.verdict]
    for alert in alerts:
        assert (alert.batch_id, alert.lineage) == (3, "old")
        assert told in alert.what_to_do
        assert ("unpause this DAG" in alert.what_to_do) == (alert.kind is AlertKind.GAVE_UP)

    supervised, alone = of_status(home, tmp_path)
    assert told in supervised
    assert told in alone


def test_a_command_in_a_remedy_is_told_as_it_is_typed(home: StreamHome, tmp_path: Path, alerts: list[Alert]) -> None:
    driver = ended_by(home, LineageUnfit("clicks", "new", "old", "it refuses all"))
    failure = failure_of(driver)
    assert failure is not None
    assert Ledger(home, POLICY, alerts.append).note_failure(failure, driver)
    decision = decide(situation_of(driver), SupervisionRecord(), POLICY, NOW)
    assert isinstance(decision, GiveUp)
    last_line = SupervisionEnded("clicks", decision.reason, decision.remedy).remedy
    for told in (alerts[0].what_to_do, last_line, *of_status(home, tmp_path)):
        assert "`sessionizer rollback clicks`" in told
        assert "…`" not in told


def of_status(home: StreamHome, platform_home: Path) -> tuple[str, str]:
    streams = platform_home / "specs"
    streams.mkdir()
    platform = Platform(platform_home, streams)
    platform.add("clicks")
    supervised = platform.call("status", "clicks").stdout
    (home.control / "supervision.json").unlink()
    return supervised, platform.call("status", "clicks").stdout


def test_each_cause_has_a_name_and_a_remedy_of_one_line() -> None:
    assert [each.name for each in CAUSES.values() if not each.called or len(each.remedy.splitlines()) != 1] == []


def test_what_ends_a_driver_before_its_query_has_a_cause() -> None:
    assert {"InvalidSpec", "SourceUnreachable", "ControlUnreachable", "UnwritablePath"} <= set(CAUSES)


def test_a_driver_that_was_killed_has_a_remedy_too() -> None:
    driver = driver_status(State.VANISHED, NOW, present=False, launched_ms=NOW - MINUTE, heard_ms=NOW)
    decision = decide(situation_of(driver), SupervisionRecord(), POLICY, NOW)
    assert isinstance(decision, Wait)
    assert KILLED.remedy in decision.why
    failure = failure_of(driver)
    assert failure is not None
    known = add_failure(SupervisionRecord(), failure, POLICY, NOW)
    assert isinstance(decide(situation_of(driver), known, POLICY, NOW + MINUTE), Launch)


def test_a_transient_cause_is_told_when_it_has_lasted_and_when_it_is_over(
    home: StreamHome, alerts: list[Alert], reviewed: Reviewed
) -> None:
    driver = death(home, RuntimeError("No space left on device"))
    failure = failure_of(driver)
    assert failure is not None
    ledger = Ledger(home, SupervisionPolicy(waiting_alert_ms=1), alerts.append)
    ledger.note_failure(failure, driver)
    begun = epoch_ms()
    while epoch_ms() <= begun + 1:
        pass
    for _ in range(3):
        ledger.note_waiting(driver)
    (waiting,) = alerts
    assert waiting.kind is AlertKind.WAITING
    before, _, after = waiting.message.partition(" for ")
    reviewed(before)
    assert "(disk_full: " in after
    assert "free some space" in waiting.what_to_do
    for _ in range(3):
        ledger.note_work(driver)
    assert [alert.kind for alert in alerts] == [AlertKind.WAITING, AlertKind.RECOVERED]
    assert alerts[-1].reason.startswith("it waited for ")
    assert alerts[-1].reason.endswith(": a disk is full")


SECTION = re.compile(r"## Causes\n.*?(?=\n## )", re.DOTALL)
ROW = re.compile(r"^\| (`.*?) \| (terminal|transient|unclear) \|", re.MULTILINE)


def rows_of_the_page() -> dict[str, str]:
    page = (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8")
    section = SECTION.search(page)
    assert section is not None
    return {name: verdict for names, verdict in ROW.findall(section[0]) for name in re.findall(r"`(\w+)`", names)}


def driver_that_ended_by(cause: str) -> DriverStatus:
    terminal = CAUSES[cause].verdict is RetryEffect.TERMINAL
    ending = ExitRecord("a", NOW, ExitOutcome.FAILED, error_type=cause, message="it ended", terminal=terminal)
    lease = LeaseRecord(7, NOW - 60_000, "a", 11, 11, "worker-3")
    desired = Desired(DesiredState.RUNNING, NOW - 90_000, "olga")
    return judge_status(DriverStatus(uid="a", desired=desired, lease=lease, alive=False, exit_record=ending), NOW)


def health_after(cause: str, ms: int, times: int = 1) -> StreamHealth:
    driver = driver_that_ended_by(cause)
    failure = failure_of(driver)
    assert failure is not None
    record = SupervisionRecord()
    for number in range(times):
        uid = "a" if number == times - 1 else f"b{number}"
        record = add_failure(record, failure.__class__(what=failure.what, cause=failure.cause, uid=uid), POLICY, NOW)
    return judged_stream(driver, NOW + ms, supervision=record).health


def test_the_page_lists_the_causes_with_their_verdicts() -> None:
    page = rows_of_the_page()
    assert len(page) > 60
    assert {name: CAUSES[name].verdict.lower() for name in page} == page


def test_a_cause_gives_its_word() -> None:
    for cause, after_ms in product(rows_of_the_page(), (0, 10_000)):
        word, rules = WORDS[CAUSES[cause].verdict]
        health = health_after(cause, after_ms)
        assert health.word is word, cause
        assert health.rule in rules, cause
        assert word is not HealthWord.DOWN or CAUSES[cause].for_good or health.findings[0].what_to_do, cause


def test_a_cause_that_repeats_is_down_when_the_budget_is_spent() -> None:
    assert health_after("memory", 0, times=POLICY.restart_budget).word is HealthWord.WARNING
    assert health_after("memory", 0, times=POLICY.restart_budget + 1).rule == "given_up"


def test_without_a_supervisor_every_cause_is_down() -> None:
    health = judged_stream(driver_that_ended_by("unreachable"), NOW).health
    assert (health.word, health.rule) == (HealthWord.DOWN, "no_driver")


LOGS = SUPPORT / "start_logs"
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
    decision = decide(situation_of(driver(problem, State.VANISHED)), SupervisionRecord(), SupervisionPolicy(), NOW)
    assert isinstance(decision, GiveUp)
    reviewed(decision.reason)
    assert "set JAVA_HOME to Java 17 or 21" in decision.remedy


def test_what_may_pass_is_tried_again_for_as_long_as_it_lasts(reviewed: Reviewed) -> None:
    seen = driver(StartProblem(known.UNREACHABLE, "master one:7077 does not answer"), State.VANISHED)
    policy = SupervisionPolicy()
    assert not isinstance(decide(situation_of(seen), SupervisionRecord(), policy, NOW), GiveUp)
    decision = decide(situation_of(seen), SupervisionRecord(attempts=99, failures=5), policy, NOW)
    assert isinstance(decision, Wait)
    assert decision.until_ms == NOW + policy.longest_backoff_ms
    reviewed(decision.why)


def test_a_start_that_never_comes_says_what_it_waits_for() -> None:
    seen = driver(StartProblem(known.NO_RESOURCES, "the cluster gives it no executor"), State.STALLED)
    decision = decide(situation_of(seen), SupervisionRecord(), SupervisionPolicy(), NOW)
    why = "no batch 200 s after its launch: the cluster gives it no executor"
    assert decision == Replace("abc123", why, CAUSES["no_resources"])


GRACE = POLICY.startup_grace_ms


class Start(NamedTuple):
    """Times in ms before now. None: it has not come so far."""

    submitted: int
    leased: int | None = None
    got_on: int | None = None
    replaced: str | None = None


STARTS = {
    "it waits in the queue": Start(GRACE),
    "it waits in the queue for too long": Start(GRACE + SECOND, replaced="no batch 181 s after its launch"),
    "submitted long ago, leased just now": Start(60 * MINUTE, GRACE),
    "a step of its start was done just now": Start(277 * SECOND, GRACE + SECOND, 20 * SECOND),
    "the newest step is as old as the grace": Start(60 * MINUTE, 59 * MINUTE, GRACE),
    "it beats, and no step was ever done": Start(
        277 * SECOND, GRACE + SECOND, replaced="no batch 277 s after its launch"
    ),
    "no step was done for longer than the grace": Start(
        400 * SECOND,
        390 * SECOND,
        GRACE + SECOND,
        replaced="no batch 400 s after its launch, and no progress of its start for 181 s",
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_is_left_alone_as_long_as_it_gets_on(name: str, tmp_path: Path) -> None:
    start, home = STARTS[name], StreamHome.of(tmp_path, "clicks")
    home.prepare()
    launch = LaunchRecord(uid="a", at=NOW - start.submitted, log="", master="yarn", submission="tag")
    LAUNCH_FILE.of(home).write(launch)
    if start.leased is not None:
        assert write_lease(home, LeaseRecord(1, NOW - start.leased, "a", 7, 7, "worker-9", "another boot"))
        progress_at = None if start.got_on is None else NOW - start.got_on
        beat = Heartbeat("a", NOW - SECOND, NOW - start.leased, Phase.STARTING, progress_at=progress_at)
        HEARTBEAT_FILE.of(home).write(beat)
    decision = decide(read_situation(home, POLICY, NOW), SupervisionRecord(), POLICY, NOW)
    if start.replaced is None:
        assert decision == Adopt("a", "STARTING")
    else:
        assert decision == Replace("a", start.replaced, NO_START)


def test_a_message_and_a_remedy_name_fields_that_the_error_has() -> None:
    kinds: list[type[SessionizerError]] = [SessionizerError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    named = [
        (kind, field.removeprefix("0.").partition("[")[0])
        for kind in kinds
        for text in (kind.message, kind.remedy)
        for _, field, _, _ in Formatter().parse(text)
        if field
    ]
    assert len(named) > 100
    assert [(kind, field) for kind, field in named if field not in kind._fields and not hasattr(kind, field)] == []
