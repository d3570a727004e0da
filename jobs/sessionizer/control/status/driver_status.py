"""The status of a driver: what its records say at a moment, and the verdict. The command line and Airflow read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from sessionizer.control.records.process_records import ExitOutcome
from sessionizer.control.records.supervision_records import Desired, DesiredState
from sessionizer.control.status.progress_line import running_line

if TYPE_CHECKING:
    from sessionizer.causes.start_problem import StartProblem
    from sessionizer.control.records.driver_records import Heartbeat
    from sessionizer.control.records.process_records import ExitRecord, LaunchRecord, LeaseRecord
    from sessionizer.home.json_record import JsonObject


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
        # Clocks of two hosts may disagree: a beat from the future is a fresh one.
        return None if sign is None else max(0, self.at - sign)

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
        """Whether it has committed a batch and lives on."""
        return self.state in {State.RUNNING, State.IDLE} and self.batch_id is not None

    @property
    def has_ended(self) -> bool:
        """Whether no process of it is left."""
        return not self.state.is_live and not self.present

    @property
    def ended_on_purpose(self) -> bool:
        """Whether it was stopped, finished its input or stepped back for another driver."""
        return self.exit_record is not None and self.exit_record.outcome is not ExitOutcome.FAILED

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
