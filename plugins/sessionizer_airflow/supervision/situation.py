"""What is known about a stream at one moment: the input of a decision. Times are epoch milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.desired_state import DesiredState
from sessionizer.control.exit_record import Outcome

if TYPE_CHECKING:
    from sessionizer.control.desired_state import Desired
    from sessionizer.control.exit_record import ExitRecord
    from sessionizer.control.observation import State
    from sessionizer_airflow.supervision.start_problem import StartProblem

RACES = frozenset({"LeaseHeld", "LeaseLost", "lease_lost"})
"""Ends that are terminal for a driver, but not for the stream: another driver was quicker."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The driver that matters: the lease's owner while it lives, else the newest one.

    `present` tells whether a process of it may still exist; `heard_ms` is its newest sign of life; `torso`, that its
    Python lives on without its JVM; `log` is the file that has what it printed, if it was launched from here;
    `start_problem`, what kept it from its first batch, if that is known.
    """

    uid: str
    state: State
    present: bool
    launched_ms: int
    heard_ms: int
    stop_requested: bool = False
    batch_id: int | None = None
    ending: ExitRecord | None = None
    torso: bool = False
    log: str | None = None
    lineage: str | None = None
    start_problem: StartProblem | None = None

    @property
    def lifetime(self) -> int:
        """Ms between the launch and the newest sign of life."""
        return self.heard_ms - self.launched_ms

    @property
    def ended_on_purpose(self) -> bool:
        """Whether it drained, finished its input or stepped back for another driver."""
        return self.ending is not None and self.ending.outcome is not Outcome.FAILED

    @property
    def restart_is_useless(self) -> bool:
        """Whether it would end the same way again."""
        if self.start_problem is not None:
            return self.start_problem.terminal
        return self.ending is not None and self.ending.terminal and self.ending.error_type not in RACES


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What people asked for, and the driver that there is."""

    desired: Desired
    driver: Driver | None = None

    @property
    def wanted(self) -> bool:
        """Whether people want the stream to run."""
        return self.desired.state is DesiredState.RUNNING
