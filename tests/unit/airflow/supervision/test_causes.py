"""Whatever a query dies of, its remedy is the same everywhere, and only what a restart cannot help is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.causes.cause import KILLED, name_stream
from sessionizer.causes.query_causes import QUERY_CAUSES, QueryCause
from sessionizer.causes.table import CAUSES
from sessionizer.control.failed_exit import record_failure
from sessionizer.control.records.airflow_records import SupervisionRecord
from sessionizer.control.records.desired_state import Desired, DesiredState
from sessionizer.control.records.process_records import EXIT_FILE, LAUNCH_FILE, LaunchRecord
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.errors import LineageUnfit, QueryFailed, QueryInterrupted, RetryEffect
from sessionizer.home.clock import MINUTE, epoch_ms
from sessionizer.spark.failures.query_failure import classify_failure
from sessionizer_airflow.alerting.alert import AlertKind
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.supervision.decide import GiveUp, Launch, Wait, decide
from sessionizer_airflow.supervision.failures import add_failure, failure_of
from sessionizer_airflow.supervision.ledger import Ledger
from sessionizer_airflow.supervision.observe import Situation
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.tell import describe
from support.expected.driver_statuses import driver_status
from support.processes.fabricated_platform import Platform

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.errors import SessionizerError
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.alerting.alert import Alert
    from support.fixtures.reviewed import Reviewed

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
LOG = "/logs/driver.abc123.log"
SIGNS = [(cause, sign) for cause in QUERY_CAUSES for sign in cause.signs or ["something new"]]


def death(home: StreamHome, error: Exception) -> DriverStatus:
    """The driver whose query died of `error`, as the supervisor finds it."""
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


@pytest.mark.parametrize(("cause", "sign"), SIGNS, ids=[f"{cause.name}-{sign}" for cause, sign in SIGNS])
def test_one_remedy_for_one_cause_everywhere(
    cause: QueryCause, sign: str, home: StreamHome, tmp_path: Path, alerts: list[Alert]
) -> None:
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
    """What `sessionizer status` says of the stream, with and without the supervisor's record."""
    streams = platform_home / "specs"
    streams.mkdir()
    platform = Platform(platform_home, streams)
    platform.add("clicks")
    supervised = platform.call("status", "clicks").stdout
    (home.control / "supervision.json").unlink()
    return supervised, platform.call("status", "clicks").stdout


@pytest.mark.parametrize("cause", [each for each in QUERY_CAUSES if each.signs], ids=lambda cause: cause.name)
def test_a_query_says_of_itself_what_its_cause_says(cause: QueryCause) -> None:
    error = classify_failure("clicks", RuntimeError(cause.signs[0]))
    ends_driver = cause.name == "lease_lost"  # terminal for the driver, not for the stream
    is_terminal = cause.verdict is RetryEffect.TERMINAL or ends_driver
    assert isinstance(error, QueryFailed if is_terminal else QueryInterrupted)
    assert error.cause == cause.name


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.name)
def test_a_remedy_is_one_line_for_people(cause: object) -> None:
    assert cause.remedy.strip()  # type: ignore[attr-defined]
    assert cause.called  # type: ignore[attr-defined]
    assert "\n" not in cause.remedy  # type: ignore[attr-defined]
    invented = {"surrender", "wish", "torso", "forgive", "heed", "charge"}
    assert not invented & set(cause.remedy.lower().split())  # type: ignore[attr-defined]


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
