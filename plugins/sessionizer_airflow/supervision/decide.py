"""Situation of a stream at one moment, and the supervisor's decision: a pure function of it, the record and the policy.

The situation is light to read: a few small files of the control directory. Times are epoch ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sessionizer.causes.cause import HALF_GONE, HUNG, NO_PROGRESS, NO_START, NOT_LEAVING, OUT_OF_SIGHT, Cause
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.supervision_records import Desired, DesiredState, SupervisionRecord, read_desired
from sessionizer.control.status.driver_status import DriverStatus, Stall, State, read_status
from sessionizer.control.status.unfinished_operation import UnfinishedOperation, read_unfinished
from sessionizer.control.timeouts import Timeouts
from sessionizer.home.clock import clock_time
from sessionizer.home.names import is_command, name_process
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import UnstartedLineage, examine_unstarted
from sessionizer.redaction import redact
from sessionizer_airflow.supervision.failures import (
    add_failure,
    describe_driver_end,
    failure_of,
    is_backing_off,
    is_gone_at,
    is_rollback_due,
    reason_to_give_up,
    remedy_after_giving_up,
)
from sessionizer_airflow.supervision.policy import SupervisionPolicy

EXIT_GRACE_MS = 60_000
"""Ms that a process may take to end after its exit record, because Spark shuts down in between."""


@dataclass(frozen=True)
class Launch:
    """Decision to start a driver, because there is none. ``why`` says how the last one ended."""

    why: str


@dataclass(frozen=True)
class Adopt:
    """Decision to watch the driver ``uid``, which lives."""

    uid: str
    phase: str


@dataclass(frozen=True)
class Wait:
    """Decision to do nothing before ``until_ms`` (epoch). It is ``orderly`` when nothing has failed."""

    until_ms: int
    why: str
    orderly: bool = False


@dataclass(frozen=True)
class Replace:
    """Decision to fence the driver ``uid``, which exists and does not work, so that another may start.

    The driver is also ended by force, unless it is ``out_of_sight``: then it has ended by itself, or can do no harm.
    """

    uid: str
    why: str
    cause: Cause
    out_of_sight: bool = False


@dataclass(frozen=True)
class RollBack:
    """Decision to fail the canary of ``lineage``, which never made a batch. The next driver rolls back from it."""

    lineage: str
    why: str


@dataclass(frozen=True)
class GiveUp:
    """Decision to start no more drivers: no restart can help, or too many did not. A user has to act."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class StandBy:
    """Decision to start no driver, because the stream should not run now.

    ``stop`` is the uid of a driver that must be asked to stop. ``unattended``: a command has the stream, but no process
    runs that command any more.
    """

    why: str
    stop: str | None = None
    unattended: bool = False


Action = Launch | Adopt | Wait | Replace | RollBack | GiveUp | StandBy


def decide(situation: Situation, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Action:
    """Decide what to do now. Never ``Launch`` while another driver may still live."""
    decision = _decision(situation, record, policy, now_ms)
    # A failed action is not retried before its time, as long as the cause lasts.
    hindered = record.waiting_since is not None and is_backing_off(record, policy, now_ms)
    if hindered and isinstance(decision, Launch | Replace | RollBack):
        return _backing_off(record)
    return decision


def _decision(situation: Situation, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Action:
    driver = situation.driver
    if not situation.wanted:
        return _stand_by(situation, record, policy, now_ms)
    if driver is None:
        return Launch("no driver has run yet")
    if driver.state.is_live:
        return _judge_live(driver, record, policy, now_ms)
    if driver.present:
        return _judge_leaving(driver, now_ms)
    return _judge_ended(driver, situation.unstarted, record, policy, now_ms)


def _stand_by(situation: Situation, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Action:
    """Decide for a stream that should not run: ask its driver to stop, and end a driver that does not answer.

    While a command has the stream, the command stops the driver itself. The lease's owner may be that command, also if
    a user has stopped the stream meanwhile, or before the command's first step. It listens to no request to stop. If no
    process runs the command, also between its tries, a user has to continue it.
    """
    driver, desired = situation.driver, situation.desired
    asked = ", ".join(part for part in (desired.by and f"by {desired.by}", desired.why) if part)
    why = f"desired state is {desired.state}" + (f" ({asked})" if asked else "")
    unfinished = situation.unfinished
    if unfinished is not None and unfinished.is_unattended(now_ms, policy.unattended_after_ms):
        return StandBy(f"{why}: {unfinished.standing}. What to do: {unfinished.go_on}", unattended=True)
    if desired.state is DesiredState.MAINTENANCE or unfinished is not None:
        return StandBy(why)
    if driver is not None and driver.state is State.STALLED:
        return _judge_live(driver, record, policy, now_ms)
    listens = driver is not None and driver.state.is_live and not driver.stop_requested and not is_command(driver.uid)
    return StandBy(why, stop=driver.uid if driver is not None and listens else None)


def _judge_live(driver: DriverStatus, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Action:
    if driver.state is not State.STALLED:
        return Adopt(driver.uid, str(driver.state))
    gone_at = is_gone_at(record, driver.heard_ms, policy, now_ms)
    if driver.out_of_sight is not None and now_ms <= gone_at:
        where = f"{name_process(driver.uid)} is on {driver.out_of_sight}, which cannot be seen from here"
        return Wait(gone_at + 1, f"{where}. It counts as gone if it sends no heartbeat until {clock_time(gone_at)}")
    return _replace_stalled(driver, now_ms)


def _judge_leaving(driver: DriverStatus, now_ms: int) -> Action:
    """Decide for a driver with an exit record, or with one part gone, whose process still exists."""
    if driver.exit_record is None:
        return Replace(driver.uid, "only a part of it is left", HALF_GONE)
    if is_command(driver.uid):  # it gave the stream back, and may go on beside it, as the sweep of an erasure does
        return Launch(describe_driver_end(driver))
    if now_ms - driver.exit_record.at <= EXIT_GRACE_MS:
        return Wait(driver.exit_record.at + EXIT_GRACE_MS, f"{name_process(driver.uid)} is leaving", orderly=True)
    ended = describe_driver_end(driver).removeprefix(f"{name_process(driver.uid)} ")
    return Replace(driver.uid, f"it {ended}, and its process did not end", NOT_LEAVING)


def _judge_ended(
    driver: DriverStatus,
    unstarted: UnstartedLineage | None,
    record: SupervisionRecord,
    policy: SupervisionPolicy,
    now_ms: int,
) -> Action:
    if driver.uid == record.settled_uid:
        return Launch(f"{name_process(driver.uid)} was dealt with")
    failure = failure_of(driver, unstarted)
    if failure is None:
        return Launch(describe_driver_end(driver))
    record = add_failure(record, failure, policy, now_ms)
    if unstarted is not None and is_rollback_due(record, failure, policy):
        return RollBack(unstarted.lineage, failure.what)
    if record.given_up:
        return GiveUp(reason_to_give_up(record, policy), remedy_after_giving_up(record))
    return _backing_off(record) if is_backing_off(record, policy, now_ms) else Launch(record.last_failure)


def _backing_off(record: SupervisionRecord) -> Wait:
    if record.waiting_since is None:
        count = f"failure {record.failures} in a row"
    else:
        count = f"attempt {record.attempts} failed, waiting since {clock_time(record.waiting_since)}"
    return Wait(record.restart_at, f"{record.last_failure} ({count}). What to do: {record.remedy}")


def _replace_stalled(driver: DriverStatus, now_ms: int) -> Replace:
    if driver.without_jvm:
        return Replace(driver.uid, "its JVM is gone", HALF_GONE)
    if driver.out_of_sight is not None:
        silent = f"{driver.out_of_sight} cannot be seen from here, and it has been silent for"
        return Replace(driver.uid, f"{silent} {_seconds(now_ms - driver.heard_ms)}", OUT_OF_SIGHT, out_of_sight=True)
    if driver.start_problem is not None:
        return Replace(
            driver.uid, f"{_no_batch(driver, now_ms)}: {redact(driver.start_problem.said)}", driver.start_problem.cause
        )
    if driver.batch_id is None and driver.stall is not Stall.NO_PROGRESS:
        return Replace(driver.uid, _no_batch(driver, now_ms), NO_START)
    last = "" if driver.batch_id is None else f", last after batch {driver.batch_id}"
    if driver.stall is Stall.NO_PROGRESS:
        stuck = now_ms - (driver.heard_ms if driver.progress_ms is None else driver.progress_ms)
        return Replace(driver.uid, f"no progress for {_seconds(stuck)}{last}", NO_PROGRESS)
    return Replace(driver.uid, f"silent for {_seconds(now_ms - driver.heard_ms)}{last}", HUNG)


def _no_batch(driver: DriverStatus, now_ms: int) -> str:
    launched = f"no batch {_seconds(now_ms - driver.launched_ms)} after its launch"
    if driver.progress_ms is None:
        return launched
    return f"{launched}, and no progress of its start for {_seconds(now_ms - driver.progress_ms)}"


def _seconds(ms: int) -> str:
    return f"{ms // 1000} s"


NOT_WORKING: Final = frozenset({State.VANISHED, State.FAILED, State.STALLED})


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Desired state of the stream, and its driver.

    ``unfinished``: the command that has the stream, unless the stream should run. ``unstarted``: the lineage, if the
    driver did not bring it to a batch and no other has since a command changed it.
    """

    desired: Desired
    driver: DriverStatus | None = None
    unfinished: UnfinishedOperation | None = None
    unstarted: UnstartedLineage | None = None

    @property
    def wanted(self) -> bool:
        """Whether the stream should run."""
        return self.desired.state is DesiredState.RUNNING


def read_situation(home: StreamHome, policy: SupervisionPolicy, now_ms: int) -> Situation:
    """Read what the stream is doing. Raises ControlUnreachable, DamagedFile: a guess could start a stopped one."""
    driver = read_status(home, now_ms, Timeouts(policy.startup_grace_ms, policy.stale_limit_ms))
    desired = read_desired(home)
    is_wanted = desired.state is DesiredState.RUNNING
    return Situation(
        desired=desired,
        driver=driver if driver.uid else None,
        unfinished=None if is_wanted else read_unfinished(home, pending_operation(home), driver.owner, now_ms),
        unstarted=examine_unstarted(home) if driver.batch_id is None and driver.state in NOT_WORKING else None,
    )
