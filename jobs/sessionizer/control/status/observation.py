"""The reading of a control directory at a moment, and the observation that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from sessionizer.control.records.desired_state import Desired, DesiredState

if TYPE_CHECKING:
    from sessionizer.control.records.exit_record import ExitRecord
    from sessionizer.control.records.heartbeat import Heartbeat
    from sessionizer.control.records.lease_record import LeaseRecord
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


@dataclass(frozen=True, slots=True)
class ControlReading:
    """The content of the control directory. ``alive`` concerns the lease's process. None: it cannot be seen from here.

    ``uid`` narrows the view to one driver, launched at ``launched_at`` (epoch ms), that may not have the lease (yet).
    """

    desired: Desired = field(default_factory=lambda: Desired(DesiredState.RUNNING))
    lease: LeaseRecord | None = None
    alive: bool | None = None
    heartbeat: Heartbeat | None = None
    exit_record: ExitRecord | None = None
    stop_requested: bool = False
    uid: str | None = None
    launched_at: int | None = None
    damage: tuple[str, ...] = ()
    """A line for each control file that exists but cannot be read."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The verdict on a stream. ``age_ms`` is the time since its last sign of life. None if it never gave any.

    Heartbeat and exit record belong to driver ``uid``, or are None. ``stall`` is set in the state STALLED only.
    ``progress_age_ms`` is the time since the last progress of the driver's start, or of its query. None before.
    """

    state: State
    age_ms: int | None
    uid: str | None
    desired: Desired
    lease: LeaseRecord | None
    alive: bool | None
    heartbeat: Heartbeat | None
    exit_record: ExitRecord | None
    stop_requested: bool
    damage: tuple[str, ...]
    stall: Stall | None = None
    progress_age_ms: int | None = None

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
            "uid": self.uid,
            "desired": self.desired.to_json(),
            "as_desired": self.is_as_desired,
            "lease": self.lease and self.lease.to_json(),
            "alive": self.alive,
            "heartbeat": self.heartbeat and self.heartbeat.to_json(),
            "exit": self.exit_record and self.exit_record.to_json(),
            "stop_requested": self.stop_requested,
            "damage": list(self.damage),
        }
