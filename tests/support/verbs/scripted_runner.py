"""A runner whose steps are run on paper: by a function, on a stream home without data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sessionizer.control.execution import Step
from sessionizer.state.preconditions import find_changed_lineage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.errors import SessionizerError
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, kw_only=True)
class Do(Step):
    """Whatever the test does."""


@dataclass(frozen=True)
class ScriptedPlan:
    """Plan of a ``digest``, and of the fields that it covers."""

    digest: str
    steps: tuple[Step, ...]
    refusal: SessionizerError | None = None
    decided: Mapping[str, Any] = field(default_factory=dict)

    def require_possible(self) -> None:
        """Raise the error that makes it impossible."""
        if self.refusal is not None:
            raise self.refusal


@dataclass(kw_only=True)
class ScriptedRunner:
    """``work`` runs a step, and returns the lineage that is active then. ``digest``: of the plan, None: as approved.

    ``activated``: what an earlier try made active. ``cleaned``: how often it had to clean up.
    """

    home: StreamHome
    work: Callable[[Step, Operation], str | None]
    steps: tuple[Step, ...] = (Do(),)
    last: tuple[Step, ...] = ()
    look: Callable[[], object] = lambda: None
    digest: str | None = None
    refusal: SessionizerError | None = None
    decided: Mapping[str, Any] = field(default_factory=dict)
    activated: Callable[[], str | None] | None = None
    cleaned: int = 0

    def find_activated(self, record: OperationRecord) -> str | None:
        """As ``activated`` says, else as the stream's records do."""
        return self.activated() if self.activated else find_changed_lineage(self.home, record)

    def plan_again(self, record: OperationRecord) -> ScriptedPlan:
        """The plan, after a look."""
        self.look()
        return ScriptedPlan(self.digest or record.digest, self.steps, self.refusal, self.decided)

    def last_steps(self) -> tuple[Step, ...]:
        """What follows the activation."""
        return self.last

    def run(self, step: Step, operation: Operation) -> str | None:
        """Run it on paper."""
        return self.work(step, operation)

    def clean_up(self, operation: Operation) -> None:
        """Count."""
        self.cleaned += 1
