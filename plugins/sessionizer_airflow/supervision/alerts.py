"""What people are told of a failure, and of its end: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.causes.table import Verdict, cause_of
from sessionizer.control.status.progress_line import in_words
from sessionizer_airflow.alerting.alert import Alert, Kind
from sessionizer_airflow.supervision.decide import GO_ON
from sessionizer_airflow.supervision.ends import first_line
from sessionizer_airflow.supervision.history import reason_to_give_up

if TYPE_CHECKING:
    from sessionizer.control.records.supervision_record import SupervisionRecord
    from sessionizer_airflow.supervision.history import Failure
    from sessionizer_airflow.supervision.policy import SupervisionPolicy
    from sessionizer_airflow.supervision.situation import Driver


def alert_on_failure(
    stream: str, failure: Failure, record: SupervisionRecord, policy: SupervisionPolicy, driver: Driver | None
) -> Alert | None:
    """Told at once of a failure that is new on `record`; None of a transient cause, which may be over in a moment."""
    if record.given_up:
        return _alert(stream, Kind.GAVE_UP, reason_to_give_up(record, policy), f"{record.remedy}; {GO_ON}", driver)
    if failure.cause.verdict is Verdict.TRANSIENT:
        return None
    return _alert(stream, Kind.REPLACED, failure.what, failure.remedy, driver)


def alert_on_waiting(stream: str, record: SupervisionRecord, now_ms: int, driver: Driver | None) -> Alert:
    """Told once, when a transient cause has lasted."""
    reason = f"{_what_for(record)}, for {_lasted(record, now_ms)}: {record.last_failure}"
    return _alert(stream, Kind.WAITING, reason, f"{record.remedy}. It is tried again until then", driver)


def alert_on_work(stream: str, record: SupervisionRecord, now_ms: int, driver: Driver | None) -> Alert:
    """Told once, when what a stream waited for is over."""
    return _alert(stream, Kind.RECOVERED, f"it waited for {_lasted(record, now_ms)}: {_what_for(record)}", "", driver)


def alert_on_surprise(stream: str, error: Exception) -> Alert:
    """Told when the task fails for good of something that nobody foresaw."""
    reason = f"its supervision failed: {type(error).__name__}: {first_line(str(error))}"
    return _alert(stream, Kind.GAVE_UP, reason, f"read the task's log; {GO_ON}", None)


def _what_for(record: SupervisionRecord) -> str:
    return cause_of(record.cause).called or record.last_failure


def _lasted(record: SupervisionRecord, now_ms: int) -> str:
    return in_words(now_ms - (record.waiting_since or now_ms))


def _alert(stream: str, kind: Kind, reason: str, what_to_do: str, driver: Driver | None) -> Alert:
    return Alert(
        stream=stream,
        kind=kind,
        reason=reason,
        what_to_do=what_to_do,
        lineage=driver.lineage if driver else None,
        batch_id=driver.batch_id if driver else None,
    )
