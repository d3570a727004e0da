"""Texts about a decision: its log line and level, its label, and its alert. Pure."""

import logging
from typing import Protocol

from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import cause_of
from sessionizer.control.records.supervision_records import SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.control.status.unfinished_operation import UnfinishedOperation
from sessionizer.errors import RetryEffect
from sessionizer.home.clock import clock_time, describe_duration
from sessionizer.home.names import name_process
from sessionizer_airflow.alerting import Alert, AlertKind
from sessionizer_airflow.supervision.decide import (
    Action,
    Adopt,
    GiveUp,
    Launch,
    Replace,
    RollBack,
    Situation,
    StandBy,
    Wait,
)
from sessionizer_airflow.supervision.failures import (
    GO_ON,
    Failure,
    cut_to_line,
    is_rollback_due,
    reason_to_give_up,
    remedy_after_giving_up,
)
from sessionizer_airflow.supervision.policy import SupervisionPolicy

WORKING = frozenset({str(State.RUNNING), str(State.IDLE)})
"""States between which a stream may alternate every few seconds: no change worth a line."""


def describe(decision: Action, situation: Situation | None, now_ms: int) -> str:
    """Return the log line for a decision made at ``now_ms`` (epoch)."""
    match decision:
        case Launch(why):
            line = f"launching a driver: {why}"
        case Adopt(uid, state):
            line = f"watching {name_process(uid)}: {_word_for(state)}{_progress(situation)}"
        case Wait(until_ms, why):
            line = f"waiting until {clock_time(until_ms)} ({max(0, until_ms - now_ms) / 1000:.0f} s): {why}"
        case Replace(uid, why, out_of_sight=out_of_sight):
            who = name_process(uid)
            line = f"replacing {who}: {why}" if out_of_sight else f"ending {who} by force: {why}"
        case RollBack(lineage, why):
            line = f"rolling back: lineage {lineage} never made a batch: {why}"
        case GiveUp(reason, remedy):
            line = f"giving up: {reason}. What to do: {remedy}"
        case StandBy(why, stop=stop):
            line = f"standing by: {why}" + (f", and {name_process(stop)} is asked to stop" if stop else "")
    return line


def subject(decision: Action) -> tuple[str, ...]:
    """Return the stable part of a decision, without details that change all the time. A change needs a new line."""
    match decision:
        case Adopt(uid, state):
            return ("adopt", uid, _word_for(state))
        case Wait(_, why) | StandBy(why):
            return (type(decision).__name__, why)
        case _:
            return (type(decision).__name__,)


def milestone(situation: Situation, now_ms: int) -> tuple[str, ...]:
    """Return a text that changes 1, 2, 4, 8 … minutes after a long batch began. Each change needs a new line."""
    driver = situation.driver
    if driver is None or driver.under_way is None or driver.under_way_since is None:
        return ()
    minutes = (now_ms - driver.under_way_since) // 60_000
    return (f"a batch for {2 ** (minutes.bit_length() - 1)} m and more",) if minutes > 0 else ()


def _word_for(state: str) -> str:
    return "working" if state in WORKING else state.lower()


def _progress(situation: Situation | None) -> str:
    driver = situation.driver if situation else None
    if driver is not None and driver.under_way is not None:
        return f", {driver.under_way}"
    return "" if driver is None or driver.batch_id is None else f", batch {driver.batch_id}"


class Say(Protocol):
    """Function that logs one line. ``level`` is one of ``logging``."""

    def __call__(self, line: str, level: int = logging.INFO) -> None:
        """Log the line."""


def level_of(decision: Action) -> int:
    """Return ERROR when a user has to act, WARNING for a failed or hung driver and its handling, else INFO."""
    match decision:
        case GiveUp():
            return logging.ERROR
        case Replace() | RollBack() | StandBy(unattended=True):
            return logging.WARNING
        case Wait(orderly=orderly):
            return logging.INFO if orderly else logging.WARNING
        case _:
            return logging.INFO


def alert_on_failure(
    stream: str,
    failure: Failure,
    record: SupervisionRecord,
    policy: SupervisionPolicy,
    driver: DriverStatus | None,
    to_install: str = "",
) -> Alert | None:
    """Make the alert on a new failure, None for a transient cause. ``to_install``: what the lineage before needs."""
    if failure.unstarted is not None and is_rollback_due(record, failure, policy):
        left, before = failure.unstarted.lineage, failure.unstarted.before
        reason = f"lineage {left} never made a batch, so the stream returns to lineage {before}: {failure.what}"
        mend = f"the next upgrade, {failure.cause.remedy}"
        told = f"{to_install}. Before {mend}" if to_install else f"before {mend}"
        return _alert(stream, AlertKind.ROLLED_BACK, reason, told, driver)
    if record.given_up:
        reason = _name_cause(failure, reason_to_give_up(record, policy))
        return _alert(stream, AlertKind.GAVE_UP, reason, remedy_after_giving_up(record), driver)
    if failure.cause.verdict is RetryEffect.TRANSIENT:
        return None
    return _alert(stream, AlertKind.REPLACED, _name_cause(failure, failure.what), failure.remedy, driver)


def _name_cause(failure: Failure, reason: str) -> str:
    """Return the cause in words, then the ``reason`` with its names and numbers."""
    return f"{failure.cause.called}: {reason}" if failure.cause.called else reason


def alert_on_waiting(stream: str, record: SupervisionRecord, now_ms: int, driver: DriverStatus | None) -> Alert:
    """Make the alert on a transient cause that has lasted. It is sent once."""
    reason = f"{_what_for(record)}, for {_duration(record, now_ms)}: {record.last_failure}"
    return _alert(stream, AlertKind.WAITING, reason, f"{record.remedy}. The supervisor retries until then", driver)


def alert_on_work(stream: str, record: SupervisionRecord, now_ms: int, driver: DriverStatus | None) -> Alert:
    """Make the alert that the wait of a stream is over. It is sent once."""
    return _alert(
        stream, AlertKind.RECOVERED, f"it waited for {_duration(record, now_ms)}: {_what_for(record)}", "", driver
    )


def alert_on_unattended(stream: str, unfinished: UnfinishedOperation) -> Alert:
    """Make the alert on a command that has the stream without a process. It is sent once."""
    reason = f"{unfinished.standing}. The stream is down until it is finished"
    return Alert(stream=stream, kind=AlertKind.OPERATION_STUCK, reason=reason, what_to_do=unfinished.go_on)


def alert_on_surprise(stream: str, error: Exception) -> Alert:
    """Make the alert on an unexpected error by which the task fails for good."""
    reason = f"its supervision failed: {type(error).__name__}: {cut_to_line(str(error))}"
    return _alert(stream, AlertKind.GAVE_UP, reason, f"read the task's log, {GO_ON}", None)


def _what_for(record: SupervisionRecord) -> str:
    return cause_of(record.cause).called or record.last_failure


def _duration(record: SupervisionRecord, now_ms: int) -> str:
    return describe_duration(now_ms - (record.waiting_since or now_ms))


def _alert(stream: str, kind: AlertKind, reason: str, what_to_do: str, driver: DriverStatus | None) -> Alert:
    return Alert.about(kind, stream, (reason, name_stream(what_to_do, stream)), driver)
