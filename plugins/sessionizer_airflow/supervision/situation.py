"""What is known about a stream at one moment: the input of a decision. Times are epoch milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.records.desired_state import DesiredState
from sessionizer.control.records.exit_record import Outcome
from sessionizer.control.status.observation import State

if TYPE_CHECKING:
    from sessionizer.causes.start_problem import StartProblem
    from sessionizer.control.records.desired_state import Desired
    from sessionizer.control.records.exit_record import ExitRecord
    from sessionizer.control.status.observation import Stall


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The driver that matters: the lease's owner while it lives, else the newest one.

    `present` tells whether a process of it may still exist; `heard_ms` is its newest sign of life, `progress_ms` the
    newest sign that its query gets on; `without_jvm`, that its Python lives on without its JVM; `out_of_sight` names
    the machine whose processes neither we nor a cluster can see from here; `log` is the file that has what it printed,
    if it was launched from here; `start_problem`, what kept it from its first batch, if that is known; `under_way` says
    how far a long batch has come that began at `under_way_since`.
    """

    uid: str
    state: State
    present: bool
    launched_ms: int
    heard_ms: int
    progress_ms: int | None = None
    stall: Stall | None = None
    stop_requested: bool = False
    batch_id: int | None = None
    ending: ExitRecord | None = None
    without_jvm: bool = False
    out_of_sight: str | None = None
    log: str | None = None
    lineage: str | None = None
    start_problem: StartProblem | None = None
    under_way: str | None = None
    under_way_since: int | None = None

    @property
    def lifetime(self) -> int:
        """Ms between the launch and the newest sign of life."""
        return self.heard_ms - self.launched_ms

    @property
    def works(self) -> bool:
        """Whether it has committed a batch and lives on."""
        return self.state in {State.RUNNING, State.IDLE} and self.batch_id is not None

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is left."""
        return not self.state.is_live and not self.present

    @property
    def ended_on_purpose(self) -> bool:
        """Whether it was stopped, finished its input or stepped back for another driver."""
        return self.ending is not None and self.ending.outcome is not Outcome.FAILED


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What people asked for, and the driver that there is."""

    desired: Desired
    driver: Driver | None = None

    @property
    def wanted(self) -> bool:
        """Whether people want the stream to run."""
        return self.desired.state is DesiredState.RUNNING
