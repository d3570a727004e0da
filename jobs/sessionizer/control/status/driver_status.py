"""The status of a driver: what its records say at a moment, and the verdict. The command line and Airflow read it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from sessionizer.causes.cause import KILLED, Cause, StartProblem, find_start_problem
from sessionizer.causes.table import CAUSES, cause_of
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
from sessionizer.control.status.batch_progress import running_line
from sessionizer.control.timeouts import Timeouts
from sessionizer.home.json_record import JsonObject
from sessionizer.home.record_file import Reading
from sessionizer.home.stream_home import StreamHome


class State(StrEnum):
    """The state of a stream, or of one of its drivers."""

    NEVER_STARTED = "NEVER_STARTED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STALLED = "STALLED"
    """The driver should live but does not work. ``Stall`` tells the symptom."""
    STOPPING = "STOPPING"
    """The driver ends at the next batch boundary."""
    STOPPED = "STOPPED"
    """The driver ended as requested: stopped, finished its input, gave up the lease, or noticed its loss."""
    FAILED = "FAILED"
    VANISHED = "VANISHED"
    """Its process is gone, and it left no exit record."""

    @property
    def is_live(self) -> bool:
        """Whether there is, or may be, a process."""
        return self in {State.STARTING, State.RUNNING, State.IDLE, State.STALLED, State.STOPPING}


class Stall(StrEnum):
    """The symptom of a driver that should live and does not work."""

    NO_START = "no_start"
    """Its start showed no progress for the startup grace."""
    SILENT = "silent"
    """The driver does not beat: the process hangs or is stopped, or its machine is."""
    NO_PROGRESS = "no_progress"
    """The driver beats, but its batch makes no progress: a task hangs, or a resource that it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatus:
    """The records of driver ``uid`` ("" if unknown) and of its stream, with the verdict ``state``. Times are epoch ms.

    ``alive`` concerns the lease's process, ``launched_lives`` the launched one (spark-submit, then its JVM). None: it
    cannot be seen from here, such as in a cluster. ``stall`` is set in the state STALLED only. ``damage`` has a line
    for each file that exists and cannot be read. ``launch`` is None unless Airflow launched it. ``without_jvm``: its
    Python lives on without a JVM, and can do nothing more. ``log``: the file with its output, if it was launched from
    here. ``start_problem``: the known obstacle to its first batch. ``lease_owner``: the owner of the lease, or the last
    one, if that may be another driver.
    """

    uid: str = ""
    at: int = 0
    state: State = State.NEVER_STARTED
    stall: Stall | None = None
    desired: Desired = field(default_factory=lambda: Desired(DesiredState.RUNNING))
    lease: LeaseRecord | None = None
    alive: bool | None = None
    heartbeat: Heartbeat | None = None
    exit_record: ExitRecord | None = None
    stop_requested: bool = False
    damage: tuple[str, ...] = ()
    launch: LaunchRecord | None = None
    launched_lives: bool | None = None
    without_jvm: bool = False
    log: str | None = None
    start_problem: StartProblem | None = None
    lease_owner: DriverStatus | None = None

    @property
    def owner(self) -> DriverStatus:
        """The status of the lease's owner."""
        return self.lease_owner or self

    @property
    def age_ms(self) -> int | None:
        """Milliseconds since its last sign of life. None if it never gave any."""
        latest = self.exit_record or self.heartbeat or (None if self.lease else self.launch)
        sign = latest.at if latest else self.lease.acquired_at if self.lease else None
        return None if sign is None else max(0, self.at - sign)  # by another host's clock it may be in the future

    @property
    def progress_ms(self) -> int | None:
        """The time of the last progress of its start, or of its query. None before."""
        known = self.heartbeat.progress_at if self.heartbeat else None
        return None if known is None else min(self.at, known)

    @property
    def progress_age_ms(self) -> int | None:
        """Milliseconds since ``progress_ms``."""
        return None if self.progress_ms is None else self.at - self.progress_ms

    @property
    def acquired_ms(self) -> int:
        """The time at which it took the lease. 0 if it has not."""
        return self.lease.acquired_at if self.lease else 0

    @property
    def launched_ms(self) -> int:
        """The time of its launch, or else of its lease."""
        return self.launch.at if self.launch else self.acquired_ms

    @property
    def heard_ms(self) -> int:
        """Its newest sign of life: launch, lease, or heartbeat."""
        return max(self.launched_ms, self.acquired_ms, self.heartbeat.at if self.heartbeat else 0)

    @property
    def lifetime_ms(self) -> int:
        """Milliseconds between the launch and the newest sign of life."""
        return self.heard_ms - self.launched_ms

    @property
    def batch_id(self) -> int | None:
        """Its last committed batch."""
        return self.heartbeat.batch_id if self.heartbeat else None

    @property
    def lineage(self) -> str | None:
        """The lineage that it runs."""
        return self.heartbeat.lineage if self.heartbeat else None

    @property
    def under_way(self) -> str | None:
        """A line about the batch under way, if it takes long."""
        return running_line(self.heartbeat, self.at) if self.heartbeat else None

    @property
    def under_way_since(self) -> int | None:
        """The time at which the batch under way began."""
        return self.heartbeat.running_since if self.heartbeat else None

    @property
    def out_of_sight(self) -> str | None:
        """The machine of a process that cannot be seen from here. None if we can see it, or can ask a cluster."""
        can_ask = self.launch is not None and self.launch.submission is not None
        if can_ask or self.launched_lives is not None or self.alive is not None or self.lease is None:
            return None
        return self.lease.host or "an unknown machine"

    @property
    def present(self) -> bool:
        """Whether a process of it may still exist."""
        return self.launched_lives is True or self.alive is True or (self.alive is None and self.state.is_live)

    @property
    def works(self) -> bool:
        """Whether it lives, and has committed a batch or found nothing to read."""
        return self.state is State.IDLE or (self.state is State.RUNNING and self.batch_id is not None)

    @property
    def has_ended(self) -> bool:
        """Whether no process of it is left."""
        return not self.state.is_live and not self.present

    @property
    def ended_on_purpose(self) -> bool:
        """Whether it was stopped, finished its input or stepped back for another driver."""
        return self.exit_record is not None and self.exit_record.outcome is not ExitOutcome.FAILED

    @property
    def cause(self) -> Cause:
        """Cause of its end, or why it never began."""
        if self.start_problem is not None:
            return self.start_problem.cause
        ending = self.exit_record
        return KILLED if ending is None else cause_of(ending.error_type, ending.message or "", terminal=ending.terminal)

    @property
    def is_as_desired(self) -> bool:
        """Whether the stream is in its desired state."""
        if self.desired.state is DesiredState.RUNNING:
            return self.state in {State.STARTING, State.RUNNING, State.IDLE}
        return not self.state.is_live

    def to_json(self) -> JsonObject:
        """Convert it for programs. Nested records have their own fields."""
        return {
            "state": str(self.state),
            "stall": self.stall and str(self.stall),
            "age_ms": self.age_ms,
            "progress_age_ms": self.progress_age_ms,
            "uid": self.uid or None,
            "desired": self.desired.to_json(),
            "as_desired": self.is_as_desired,
            "lease": self.lease and self.lease.to_json(),
            "alive": self.alive,
            "heartbeat": self.heartbeat and self.heartbeat.to_json(),
            "exit": self.exit_record and self.exit_record.to_json(),
            "stop_requested": self.stop_requested,
            "damage": list(self.damage),
        }


USUAL: Final = Timeouts()
_SICK: Final = frozenset({State.VANISHED, State.FAILED, State.STALLED})


def read_status(home: StreamHome, now: int, limits: Timeouts = USUAL) -> DriverStatus:
    """Return the status of the lease's owner while it lives, else of the newest driver. Raises ControlUnreachable."""
    # the launch is read first: a driver that takes the lease meanwhile is then seen as its owner
    launch, owner = read_launch(home), read_driver(home, now, limits)
    if launch is None or (launch.uid != owner.uid and (owner.state.is_live or owner.acquired_ms > launch.at)):
        return _explain_start(home, owner)
    newest = owner if launch.uid == owner.uid else read_driver(home, now, limits, uid=launch.uid, launch=launch)
    return _explain_start(home, _look_at_launched(replace(newest, launch=launch, lease_owner=owner), launch))


def read_driver(
    home: StreamHome, now: int, limits: Timeouts = USUAL, *, uid: str = "", launch: LaunchRecord | None = None
) -> DriverStatus:
    """Return the status of the lease's owner, or of the launched ``uid``. Raises ControlUnreachable."""
    # the process is looked at before its exit record: otherwise a driver that ends in between would have vanished
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
    """Return ``reading``, however contradictory, with the verdict at ``now`` (epoch ms). Never raises."""
    known = replace(_select_driver(reading), at=now)
    stall = _stall(known.lease, known.heartbeat, now, limits) if known.lease else None
    state = _state(known, stall, limits)
    return replace(known, state=state, stall=stall if state is State.STALLED else None)


def _select_driver(reading: DriverStatus) -> DriverStatus:
    lease = reading.lease
    if lease is not None and reading.uid not in {"", lease.uid}:
        lease = None
    uid = reading.uid or (lease.uid if lease else None) or ""
    beat, ended = reading.heartbeat, reading.exit_record
    since = lease.acquired_at if lease else 0
    # an unknown owner (a damaged lease) may be the author of any heartbeat
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
    # a driver that was fenced and cannot be seen from here was killed by the cluster
    if known.alive is False or (known.lease.vacancy is Vacancy.FENCED and known.alive is None):
        return State.VANISHED
    if stall is not None:
        return State.STALLED
    return _state_of_live(known, known.lease)


def _state_before_lease(known: DriverStatus, limits: Timeouts) -> State:
    if known.launch is None:
        return State.NEVER_STARTED
    return State.STARTING if known.at - known.launch.at <= limits.startup_grace_ms else State.VANISHED


def _stall(lease: LeaseRecord, heartbeat: Heartbeat | None, now: int, limits: Timeouts) -> Stall | None:
    if heartbeat is None or heartbeat.phase is Phase.STARTING:
        # a beat alone is no progress: a driver may beat for ever without reaching its first batch
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
    lives = _launched_lives(launch)
    process = seen.lease.process if seen.lease and seen.state.is_live and seen.alive else None
    # the driver's Python is asked again after the JVM, because both may have ended
    without_jvm = lives is False and process is not None and is_alive(process) is True
    state = State.STALLED if without_jvm else _state_of_launched(seen, launch, lives=lives)
    return replace(seen, state=state, launched_lives=lives, without_jvm=without_jvm)


def _launched_lives(launch: LaunchRecord) -> bool | None:
    if launch.ended_at is not None:
        return False
    return is_alive(launch.process) if launch.process and launch.submission is None else None


def _state_of_launched(seen: DriverStatus, launch: LaunchRecord, *, lives: bool | None) -> State:
    before_lease = seen.lease is None
    if lives is False and seen.state is State.STARTING and before_lease:
        return State.VANISHED
    if lives is True and seen.state is State.VANISHED and before_lease:
        return State.STALLED
    # only the cluster knows its state: it may wait in a queue, or its process be left over
    unaccounted_for = launch.submission is not None and lives is None and seen.state is State.VANISHED
    return State.STALLED if unaccounted_for else seen.state


def _explain_start(home: StreamHome, seen: DriverStatus) -> DriverStatus:
    cause = CAUSES.get(seen.exit_record.error_type or "") if seen.exit_record is not None else None
    told = seen.exit_record is not None and (cause is None or not cause.is_vague)
    may_tell = seen.batch_id is None and not told and seen.state in _SICK
    if not may_tell and not seen.launch:
        return seen
    log = seen.launch.log if seen.launch else str(home.driver_log(seen.uid)) if seen.uid else None
    known = None if log is None else own_file(home, log)
    problem = find_start_problem(Path(str(log))) if may_tell and known is not None else None
    return replace(seen, log=log if known is not None and seen.launch else None, start_problem=problem)
