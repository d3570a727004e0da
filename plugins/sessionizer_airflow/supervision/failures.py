"""How a driver failed, and what a failure changes in the record of a stream's supervision: pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.causes.cause import Verdict
from sessionizer.causes.of_drivers import KILLED
from sessionizer.causes.table import cause_of
from sessionizer.control.records.supervision_record import SupervisionRecord
from sessionizer.redaction import redacted

if TYPE_CHECKING:
    from sessionizer.causes.cause import Cause
    from sessionizer_airflow.supervision.observe import Driver
    from sessionizer_airflow.supervision.policy import SupervisionPolicy

LINE_LIMIT = 300
GO_ON = "then unpause this DAG: its next run starts with a full restart budget"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """``what`` happened for ``cause``; ``uid`` is the driver that failed, None if none was started or could be asked.

    ``lifetime_ms`` (ms) is for how long the driver had worked; ``log``, the file that has what it printed.
    """

    what: str
    cause: Cause
    uid: str | None = None
    lifetime_ms: int = 0
    log: str | None = None

    @property
    def remedy(self) -> str:
        """What to do, and where to look."""
        return f"{self.cause.remedy} (its log: {self.log})" if self.log else self.cause.remedy


def failure_of(driver: Driver | None) -> Failure | None:
    """The failure that ended the driver; None if it lives, or ended as it was told to."""
    if driver is None or not driver.has_ended or driver.ended_on_purpose:
        return None
    return Failure(
        what=describe_end(driver),
        cause=cause_of_end(driver),
        uid=driver.uid,
        lifetime_ms=driver.lifetime_ms,
        log=driver.log,
    )


def cause_of_end(driver: Driver) -> Cause:
    """Why it ended, or never began."""
    if driver.start_problem is not None:
        return driver.start_problem.cause
    ending = driver.ending
    return KILLED if ending is None else cause_of(ending.error_type, ending.message or "", terminal=ending.terminal)


def describe_end(driver: Driver) -> str:
    """How the driver ended, in one line."""
    ending = driver.ending
    if driver.start_problem is not None:
        return f"driver {driver.uid} did not start: {redacted(driver.start_problem.said)}"
    if ending is None:
        return f"driver {driver.uid} vanished without an exit record"
    # a query names its stream and its cause before what Spark said
    message = (ending.message or "").partition(f" ({ending.error_type}): ")[2] or ending.message or ""
    cause = ": ".join(part for part in (ending.error_type, first_line(message)) if part)
    return f"driver {driver.uid} {ending.outcome}" + (f" ({cause})" if cause else "")


def first_line(message: str) -> str:
    """What fits into a line of a log; the rest is in the exit record and the driver's log."""
    line = redacted(message).partition("\n")[0]
    return line if len(line) <= LINE_LIMIT else line[:LINE_LIMIT] + "…"


def is_known(record: SupervisionRecord, failure: Failure) -> bool:
    """Whether the failure is on record, however often it is seen: of this driver, or of none, and given up for it."""
    if failure.uid is None:
        return record.given_up and failure.what == record.last_failure
    return failure.uid == record.counted_uid


def with_failure(
    record: SupervisionRecord, failure: Failure, policy: SupervisionPolicy, now_ms: int
) -> SupervisionRecord:
    """The record after ``failure`` at ``now_ms`` (epoch): a driver's counts once, a long life makes earlier ones void.

    A transient cause leaves the restart budget alone: only the wait before the next start grows.
    """
    if is_known(record, failure):
        return record
    if failure.lifetime_ms >= policy.healthy_after_ms:
        record = replace(record, failures=0, attempts=0)
    record = replace(
        record,
        last_failure=failure.what,
        last_failure_ms=now_ms,
        cause=failure.cause.name,
        remedy=failure.remedy,
        counted_uid=failure.uid or record.counted_uid,
    )
    match failure.cause.verdict:
        case Verdict.TRANSIENT:
            attempts = record.attempts + 1
            since = now_ms if record.waiting_since is None else record.waiting_since
            restart_at = now_ms + policy.backoff(attempts)
            return replace(record, attempts=attempts, waiting_since=since, restart_at=restart_at)
        case Verdict.TERMINAL:
            return replace(record, given_up=True)
        case _:
            failures = record.failures + 1
            return replace(
                record,
                failures=failures,
                restart_at=now_ms + policy.backoff(failures),
                given_up=failures > policy.restart_budget,
            )


def reason_to_give_up(record: SupervisionRecord, policy: SupervisionPolicy) -> str:
    """Why the supervisor gives up, in one line."""
    if record.failures > policy.restart_budget:
        return f"{record.failures} failures in a row, the last: {record.last_failure}"
    return record.last_failure


def what_to_do(record: SupervisionRecord) -> str:
    """What a person does about a stream that was given up, and how it then goes on, if it does."""
    return record.remedy if cause_of(record.cause).for_good else f"{record.remedy}; {GO_ON}"


def after_person(record: SupervisionRecord, uid: str | None) -> SupervisionRecord:
    """A person has let the stream go on: the budget is full again, the end of the dead driver ``uid`` is settled."""
    return SupervisionRecord(settled_uid=uid or record.counted_uid)


def with_unseen(record: SupervisionRecord, heard_ms: int, now_ms: int) -> SupervisionRecord:
    """The record after a look at a driver that cannot be seen from here, whose newest sign is of ``heard_ms``.

    Only whether the sign changes counts, by our own clock: those of two machines may be minutes apart.
    """
    return record if record.unseen_beat == heard_ms else replace(record, unseen_beat=heard_ms, unseen_since=now_ms)


def is_gone_at(record: SupervisionRecord, heard_ms: int, policy: SupervisionPolicy, now_ms: int) -> int:
    """When (epoch ms) such a driver counts as gone, unless it gives a sign before."""
    return (with_unseen(record, heard_ms, now_ms).unseen_since or now_ms) + policy.takeover_after_ms


def is_due_to_tell(record: SupervisionRecord, policy: SupervisionPolicy, wanted_since: int, now_ms: int) -> bool:
    """Whether a transient cause has lasted for so long, while the stream was wanted, that people should know."""
    if record.waiting_since is None or record.waiting_told or record.given_up:
        return False
    return now_ms - max(record.waiting_since, wanted_since) >= policy.waiting_alert_ms


def told_of_waiting(record: SupervisionRecord) -> SupervisionRecord:
    """The same record, now that people know."""
    return replace(record, waiting_told=True)


def after_waiting(record: SupervisionRecord) -> SupervisionRecord:
    """A driver works again: what it waited for is over. How often it did is kept, for the next wait."""
    return replace(record, waiting_since=None, waiting_told=False, restart_at=0)
