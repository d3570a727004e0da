"""Failures of a driver, and their effect on the record of a stream's supervision: pure."""

from dataclasses import dataclass, replace

from sessionizer.causes.cause import Cause
from sessionizer.causes.table import cause_of
from sessionizer.control.records.supervision_records import SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus
from sessionizer.errors import RetryEffect
from sessionizer.home.clock import MINUTE
from sessionizer.home.names import is_command, name_process
from sessionizer.lineage.canary.canary_record import UnstartedLineage
from sessionizer.redaction import redact
from sessionizer_airflow.supervision.policy import SupervisionPolicy

LINE_LIMIT = 300
GO_ON = "then unpause this DAG: its next run starts with a full restart budget"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Event ``what`` with its ``cause``. ``uid`` is the failed driver, None if none was started or could be asked.

    ``lifetime_ms`` (ms) says how long the driver had worked. ``log`` is the file with its output. ``unstarted``: the
    lineage that it did not bring to a batch.
    """

    what: str
    cause: Cause
    uid: str | None = None
    lifetime_ms: int = 0
    log: str | None = None
    unstarted: UnstartedLineage | None = None

    @property
    def remedy(self) -> str:
        """The remedy, the log to read, and the way back if the newest change may be the cause."""
        remedy = f"{self.cause.remedy} (its log: {self.log})" if self.log else self.cause.remedy
        if self.unstarted is None or not self.unstarted.way_back or not self.is_of_the_change:
            return remedy
        return f"{remedy}. Or {self.unstarted.way_back}"

    @property
    def is_of_the_change(self) -> bool:
        """Whether the change of code or spec may have caused it, so that the lineage before may do better."""
        return self.cause.verdict is not RetryEffect.TRANSIENT and not self.cause.of_any_lineage


def failure_of(driver: DriverStatus | None, unstarted: UnstartedLineage | None = None) -> Failure | None:
    """Return the failure that ended the driver. None if it lives, or ended as it was told to.

    The end of a command that had the lease is none, because its task or its user answers for it. ``unstarted``: the
    lineage that the driver did not bring to a batch.
    """
    if driver is None or not driver.has_ended or driver.ended_on_purpose or is_command(driver.uid):
        return None
    return Failure(
        what=describe_driver_end(driver),
        cause=driver.cause,
        uid=driver.uid,
        lifetime_ms=driver.lifetime_ms,
        log=driver.log,
        unstarted=unstarted,
    )


def is_rollback_due(record: SupervisionRecord, failure: Failure, policy: SupervisionPolicy) -> bool:
    """Whether to roll back to the lineage before, as a user approved, because the new one never made a batch.

    ``record``: the one that has the ``failure``. A terminal cause is enough. Others may be chance, so a number of
    starts must have failed, and at most as many as the budget allows.
    """
    lineage = failure.unstarted
    if lineage is None or not lineage.rolls_back or not failure.is_of_the_change:
        return False
    starts = min(lineage.starts, policy.restart_budget + 1)
    return failure.cause.verdict is RetryEffect.TERMINAL or record.false_starts >= starts


def describe_driver_end(driver: DriverStatus) -> str:
    """Describe in one line how the driver ended, or the command that had the lease."""
    ending, who = driver.exit_record, name_process(driver.uid)
    if driver.start_problem is not None:
        return f"{who} did not start: {redact(driver.start_problem.said)}"
    if ending is None:
        return f"{who} vanished without an exit record"
    # a query's error has the stream and the cause before Spark's own message
    message = (ending.message or "").partition(f" ({ending.error_type}): ")[2] or ending.message or ""
    cause = ": ".join(part for part in (ending.error_type, cut_to_line(message)) if part)
    return f"{who} {ending.outcome}" + (f" ({cause})" if cause else "")


def cut_to_line(message: str) -> str:
    """Cut a message to a line of a log. The rest is in the exit record and the driver's log."""
    line = redact(message).partition("\n")[0]
    return line if len(line) <= LINE_LIMIT else line[:LINE_LIMIT] + "…"


def is_known(record: SupervisionRecord, failure: Failure) -> bool:
    """Whether the failure is on record: for this driver, or, without a driver, as the reason to give up."""
    if failure.uid is None:
        return record.given_up and failure.what == record.last_failure
    return failure.uid == record.counted_uid


def add_failure(
    record: SupervisionRecord, failure: Failure, policy: SupervisionPolicy, now_ms: int
) -> SupervisionRecord:
    """Return the record after ``failure`` at ``now_ms`` (epoch).

    Each driver's failure counts once. A long life makes earlier failures void. A transient cause uses up no restart
    budget: only the wait before the next start grows.
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
    if failure.unstarted is not None:
        lineage = failure.unstarted.lineage
        before = record.false_starts if record.false_starts_of == lineage else 0
        record = replace(record, false_starts=before + 1, false_starts_of=lineage)
    if is_rollback_due(record, failure, policy):
        return record
    match failure.cause.verdict:
        case RetryEffect.TRANSIENT:
            attempts = record.attempts + 1
            since = now_ms if record.waiting_since is None else record.waiting_since
            restart_at = now_ms + policy.backoff(attempts)
            return replace(record, attempts=attempts, waiting_since=since, restart_at=restart_at)
        case RetryEffect.TERMINAL:
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
    """Say in one line why the supervisor gives up."""
    if record.failures > policy.restart_budget:
        return f"{record.failures} failures in a row, the last: {record.last_failure}"
    return record.last_failure


def remedy_after_giving_up(record: SupervisionRecord) -> str:
    """Say how a user mends a stream that was given up, and how it then continues, if it does."""
    return record.remedy if cause_of(record.cause).for_good else f"{record.remedy}; {GO_ON}"


def reset_budget(record: SupervisionRecord, uid: str | None) -> SupervisionRecord:
    """Return the record after a user resumed the stream: a full budget, and the end of driver ``uid`` settled."""
    return SupervisionRecord(settled_uid=uid or record.counted_uid)


def add_unseen(record: SupervisionRecord, heard_ms: int, now_ms: int) -> SupervisionRecord:
    """Return the record after a look at a driver that cannot be seen from here, with its newest sign at ``heard_ms``.

    Only a change of the sign counts, measured by our own clock, because the clocks of two machines may be minutes
    apart. The time begins anew if that clock was set back.
    """
    is_known = record.unseen_beat == heard_ms and (record.unseen_since or 0) <= now_ms
    return record if is_known else replace(record, unseen_beat=heard_ms, unseen_since=now_ms)


def is_gone_at(record: SupervisionRecord, heard_ms: int, policy: SupervisionPolicy, now_ms: int) -> int:
    """Return when (epoch ms) a driver that cannot be seen counts as gone, unless it gives a sign before."""
    return (add_unseen(record, heard_ms, now_ms).unseen_since or now_ms) + policy.takeover_after_ms


def is_backing_off(record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> bool:
    """Whether the next start is not due yet. A wait far beyond the longest is none: the clock was set back since.

    A failure is recorded a moment after ``now_ms`` was read, so the longest wait ends somewhat later.
    """
    return now_ms < record.restart_at <= now_ms + policy.longest_backoff_ms + MINUTE


def is_due_to_tell(record: SupervisionRecord, policy: SupervisionPolicy, wanted_since: int, now_ms: int) -> bool:
    """Whether users should know of a transient cause, because it has lasted long while the stream should run."""
    if record.waiting_since is None or record.waiting_told or record.given_up:
        return False
    return now_ms - max(record.waiting_since, wanted_since) >= policy.waiting_alert_ms


def end_wait(record: SupervisionRecord) -> SupervisionRecord:
    """Return the record after a driver works again. The number of attempts is kept for the next wait."""
    return replace(record, waiting_since=None, waiting_told=False, restart_at=0)
