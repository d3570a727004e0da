"""The reading of a driver's status from a control directory, and the pure verdict on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.causes.start_problem import VAGUE, find_start_problem
from sessionizer.control.lease import read_lease
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    LeaseRecord,
    Vacancy,
    is_alive,
    lease_file,
    own_file,
    read_launch,
    stop_requested,
)
from sessionizer.control.records.supervision_records import Desired, DesiredState, examine_desired
from sessionizer.control.status.driver_status import DriverStatus, Stall, State
from sessionizer.control.timeouts import Timeouts
from sessionizer.home.record_file import Reading

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

USUAL: Final = Timeouts()
_SICK: Final = frozenset({State.VANISHED, State.FAILED, State.STALLED})


def read_status(home: StreamHome, now: int, limits: Timeouts = USUAL) -> DriverStatus:
    """Return the lease's owner while it lives, because only one driver can work. Otherwise return the newest driver.

    The newest one may have been launched and not have taken the lease yet. Raises ControlUnreachable.
    """
    # The launch is read first: a driver that takes the lease meanwhile is then seen as its owner.
    launch, owner = read_launch(home), read_driver(home, now, limits)
    if launch is None or (launch.uid != owner.uid and (owner.state.is_live or owner.acquired_ms > launch.at)):
        return _explain_start(home, owner)
    newest = owner if launch.uid == owner.uid else read_driver(home, now, limits, uid=launch.uid, launch=launch)
    return _explain_start(home, _look_at_launched(replace(newest, launch=launch, lease_owner=owner), launch))


def read_driver(
    home: StreamHome, now: int, limits: Timeouts = USUAL, *, uid: str = "", launch: LaunchRecord | None = None
) -> DriverStatus:
    """Return the status of the lease's owner at ``now`` (epoch ms), also for a home that does not exist yet.

    With ``uid``, it is the status of that driver, which was launched and perhaps has no lease.
    Raises ControlUnreachable.
    """
    # The process is looked at before its exit record is read: the other way round, a driver that ends in between
    # would have vanished.
    lease = read_lease(home)
    process = lease.process if lease else None
    alive = is_alive(process) if process else None
    desired, heartbeat = examine_desired(home), HEARTBEAT_FILE.of(home).examine()
    subject = uid or (lease.uid if lease else None)
    ended: Reading[ExitRecord] = EXIT_FILE.of(home, subject).examine() if subject else Reading()
    owner: Reading[LeaseRecord] = lease_file(home, lease.token).examine() if lease else Reading()
    damages = (desired.damage, owner.damage, heartbeat.damage, ended.damage)
    found = DriverStatus(
        uid=uid,
        desired=desired.value or Desired(DesiredState.RUNNING),
        lease=lease,
        alive=alive,
        heartbeat=heartbeat.value,
        exit_record=ended.value,
        stop_requested=subject is not None and stop_requested(home, subject),
        damage=tuple(damage for damage in damages if damage is not None),
        launch=launch,
    )
    return judge_status(found, now, limits)


def judge_status(reading: DriverStatus, now: int, limits: Timeouts = USUAL) -> DriverStatus:
    """Return ``reading`` with the verdict at ``now`` (epoch ms), without the records of other drivers.

    Any reading, however contradictory, has a verdict. Never raises.
    """
    known = replace(_select_driver(reading), at=now)
    stall = _stall(known.lease, known.heartbeat, now, limits) if known.lease else None
    state = _state(known, stall, limits)
    return replace(known, state=state, stall=stall if state is State.STALLED else None)


def _select_driver(reading: DriverStatus) -> DriverStatus:
    """Return the part that concerns the requested driver, else the lease's (last) owner."""
    lease = reading.lease
    if lease is not None and reading.uid not in {"", lease.uid}:
        lease = None
    uid = reading.uid or (lease.uid if lease else None) or ""
    beat, ended = reading.heartbeat, reading.exit_record
    since = lease.acquired_at if lease else 0
    # An unknown owner (a damaged lease) may be the author of any heartbeat.
    beat_fits = beat is not None and lease is not None and uid in {"", beat.uid} and beat.at >= since
    return replace(
        reading,
        uid=uid,
        lease=lease,
        alive=reading.alive if lease else None,
        heartbeat=beat if beat_fits else None,
        exit_record=ended if ended is not None and ended.uid == uid and ended.at >= since else None,
    )


def _state(known: DriverStatus, stall: Stall | None, limits: Timeouts) -> State:
    if known.exit_record is not None:
        return State.FAILED if known.exit_record.outcome is ExitOutcome.FAILED else State.STOPPED
    if known.lease is None:
        return _state_before_lease(known, limits)
    if known.lease.vacancy is Vacancy.RELEASED:
        return State.STOPPED
    if _is_gone(known, known.lease):
        return State.VANISHED
    if stall is not None:
        return State.STALLED
    return _state_of_live(known, known.lease)


def _state_before_lease(known: DriverStatus, limits: Timeouts) -> State:
    if known.launch is None:
        return State.NEVER_STARTED
    return State.STARTING if known.at - known.launch.at <= limits.startup_grace_ms else State.VANISHED


def _is_gone(known: DriverStatus, lease: LeaseRecord) -> bool:
    # A driver that was fenced and cannot be seen from here was killed by the cluster.
    return known.alive is False or (lease.vacancy is Vacancy.FENCED and known.alive is None)


def _stall(lease: LeaseRecord, heartbeat: Heartbeat | None, now: int, limits: Timeouts) -> Stall | None:
    if heartbeat is None or heartbeat.phase is Phase.STARTING:
        # A beat alone is no progress: a driver may beat for ever without reaching its first batch.
        got_on_at = (heartbeat.progress_at if heartbeat else None) or lease.acquired_at
        return Stall.NO_START if now - max(got_on_at, lease.acquired_at) > limits.startup_grace_ms else None
    if now - heartbeat.at > limits.stale_after_ms:
        return Stall.SILENT
    # a driver of an earlier release tells nothing of its progress
    progress_at = heartbeat.at if heartbeat.progress_at is None else heartbeat.progress_at
    return Stall.NO_PROGRESS if now - progress_at > limits.stale_after_ms else None


def _state_of_live(known: DriverStatus, lease: LeaseRecord) -> State:
    phase = known.heartbeat.phase if known.heartbeat else Phase.STARTING
    if phase is Phase.STOPPING or known.stop_requested or lease.vacancy is Vacancy.FENCED:
        return State.STOPPING
    return {Phase.STARTING: State.STARTING, Phase.IDLE: State.IDLE}.get(phase, State.RUNNING)


def _look_at_launched(seen: DriverStatus, launch: LaunchRecord) -> DriverStatus:
    """Correct the verdict by the launched process, which lives longer than the driver that holds the lease."""
    lives = _launched_lives(launch)
    without_jvm = lives is False and _python_lives(seen)
    state = State.STALLED if without_jvm else _state_of_launched(seen, launch, lives=lives)
    return replace(seen, state=state, launched_lives=lives, without_jvm=without_jvm)


def _launched_lives(launch: LaunchRecord) -> bool | None:
    if launch.ended_at is not None:
        return False
    if launch.submission is not None:
        return None
    return is_alive(launch.process) if launch.process else None


def _python_lives(seen: DriverStatus) -> bool:
    """Whether the driver's Python lives on, although without a JVM it can do nothing more.

    It is looked at again here, after the JVM, because a Python that was seen alive may have ended before its JVM was
    looked at.
    """
    process = seen.lease.process if seen.lease else None
    return seen.state.is_live and seen.alive is True and process is not None and is_alive(process) is True


def _state_of_launched(seen: DriverStatus, launch: LaunchRecord, *, lives: bool | None) -> State:
    before_lease = seen.lease is None
    if lives is False and seen.state is State.STARTING and before_lease:
        return State.VANISHED
    if lives is True and seen.state is State.VANISHED and before_lease:
        return State.STALLED
    # Only the cluster knows its state: it may wait in a queue, or its process be left over.
    unaccounted_for = launch.submission is not None and lives is None and seen.state is State.VANISHED
    return State.STALLED if unaccounted_for else seen.state


def _explain_start(home: StreamHome, seen: DriverStatus) -> DriverStatus:
    """Return the status with its log, and the problem that kept it from its first batch, which the log may tell.

    The log must be one of the stream's, because its lines are shown to users. An exit record that names the error says
    more than the log.
    """
    told = seen.exit_record is not None and seen.exit_record.error_type not in VAGUE
    may_tell = seen.batch_id is None and not told and seen.state in _SICK
    if not may_tell and not seen.launch:
        return seen
    log = seen.launch.log if seen.launch else str(home.driver_log(seen.uid)) if seen.uid else None
    known = None if log is None else own_file(home, log)
    problem = find_start_problem(Path(str(log))) if may_tell and known is not None else None
    return replace(seen, log=log if known is not None and seen.launch else None, start_problem=problem)
