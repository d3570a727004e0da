"""Every cause on the page for 3 a.m. gives a stream its word within ten seconds, with what to do."""

from __future__ import annotations

import re

import pytest

from sessionizer.causes.table import CAUSES
from sessionizer.control.records.airflow_records import SupervisionRecord
from sessionizer.control.records.desired_state import Desired, DesiredState
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, LeaseRecord
from sessionizer.control.status.driver_status import DriverStatus
from sessionizer.control.status.read_status import judge_status
from sessionizer.errors import RetryEffect
from sessionizer.fleet.finding import HealthWord, StreamHealth
from sessionizer_airflow.supervision.failures import add_failure, failure_of
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.expected.told_causes import WORDS
from support.places import REPOSITORY
from support.streams.judged_stream import judged_stream

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
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


def health_after(cause: str, ms: int, record: SupervisionRecord | None = None, times: int = 1) -> StreamHealth:
    driver = driver_that_ended_by(cause)
    failure = failure_of(driver)
    assert failure is not None
    record = record or SupervisionRecord()
    for number in range(times):
        uid = "a" if number == times - 1 else f"b{number}"
        record = add_failure(record, failure.__class__(what=failure.what, cause=failure.cause, uid=uid), POLICY, NOW)
    return judged_stream(driver, NOW + ms, supervision=record).health


def test_the_page_lists_the_causes_with_their_verdicts() -> None:
    page = rows_of_the_page()
    assert len(page) > 60
    assert {name: CAUSES[name].verdict.lower() for name in page} == page


@pytest.mark.parametrize("cause", sorted(rows_of_the_page()))
def test_a_cause_gives_its_word(cause: str) -> None:
    word, rules = WORDS[CAUSES[cause].verdict]
    for ms in (0, 10_000):
        health = health_after(cause, ms)
        assert health.word is word
        assert health.rule in rules
    if word is HealthWord.DOWN:
        assert CAUSES[cause].for_good or health.findings[0].what_to_do


def test_a_cause_that_repeats_is_down_when_the_budget_is_spent() -> None:
    assert health_after("memory", 0, times=POLICY.restart_budget).word is HealthWord.WARNING
    assert health_after("memory", 0, times=POLICY.restart_budget + 1).rule == "given_up"


def test_without_a_supervisor_every_cause_is_down() -> None:
    health = judged_stream(driver_that_ended_by("unreachable"), NOW).health
    assert (health.word, health.rule) == (HealthWord.DOWN, "no_driver")
