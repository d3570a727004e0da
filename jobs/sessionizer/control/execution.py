"""Execution of an operation's steps: one executor for every command. Killed anywhere, it runs again from the record."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from sessionizer.control.operation import Operation
from sessionizer.control.plan_changes import Decided, require_approved
from sessionizer.control.records.operation_record import OperationRecord, OperationStage
from sessionizer.errors import LeaseLost, SessionizerError


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a command.

    ``noted``: the stage that the record notes after it, and from which a later try skips it, None for never.
    ``reversible``: the command may be given up after it. ``settles``: from its stage on the approved plan itself is on
    disk, and is not compared. ``precedes_stop``: it runs while the driver works. ``says``: its effect, in the plan
    of an upgrade.
    """

    says: ClassVar[str] = ""
    noted: ClassVar[OperationStage | None] = None
    reversible: ClassVar[bool] = True
    settles: ClassVar[bool] = False
    precedes_stop: ClassVar[bool] = False

    def is_done(self, record: OperationRecord) -> bool:
        """Whether it was run before the stop, or an earlier try has run it."""
        return self.precedes_stop or (self.noted is not None and record.has_done(self.noted))


class ApprovedPlan(Decided, Protocol):
    """Plan of a command as it is now."""

    @property
    def steps(self) -> Sequence[Step]:
        """Steps in order."""

    def require_possible(self) -> None:
        """Raise the error that makes the plan impossible."""


class StepRunner(Protocol):
    """Runner of the steps of one command."""

    def prepared(self, record: OperationRecord) -> AbstractContextManager[None]:
        """Return a context that begins before the stream is stopped. What it made is removed if no step took it."""

    def find_activated(self, record: OperationRecord) -> str | None:
        """Return the lineage of an earlier try that made the decisive change. None: no try did."""

    def plan_again(self, record: OperationRecord) -> ApprovedPlan:
        """Make the plan under the lease. Writes nothing."""

    def last_steps(self) -> Sequence[Step]:
        """Return the steps that follow the decisive change."""

    def run(self, step: Step, operation: Operation) -> str | None:
        """Run a step. Return the active lineage if the step is the decisive change."""

    def clean_up(self, operation: Operation) -> None:
        """Remove what a failed or finished try leaves and no later try uses. Idempotent."""


def execute(operation: Operation, runner: StepRunner) -> OperationRecord:
    """Run the operation, and abandon it after an error, unless a try may succeed or it can only be completed."""
    try:
        record = operation.finish(_run_steps(operation, runner))
    except LeaseLost:
        runner.clean_up(operation)
        raise
    except Exception as error:
        runner.clean_up(operation)
        _end_try(operation, runner, error)
        raise
    runner.clean_up(operation)
    return record


def _run_steps(operation: Operation, runner: StepRunner) -> str:
    lineage = runner.find_activated(operation.record)
    for step in _approved_steps(operation, runner) if lineage is None else runner.last_steps():
        if not step.is_done(operation.record):
            operation.permit()
            if not step.reversible:
                operation.reached(OperationStage.SEEDED)
            lineage = runner.run(step, operation) or lineage
            if lineage is not None:
                operation.note_activated(lineage)
            if step.noted is not None:
                operation.reached(step.noted)
    assert lineage is not None  # noqa: S101  every plan has a decisive step
    return lineage


def _approved_steps(operation: Operation, runner: StepRunner) -> Sequence[Step]:
    record, plan = operation.record, runner.plan_again(operation.record)
    is_settled = any(step.settles and step.is_done(record) for step in plan.steps)
    if not record.is_past_return and not is_settled:
        require_approved(operation.home, record.digest, plan, record.decided)
        plan.require_possible()
    return plan.steps


def _end_try(operation: Operation, runner: StepRunner, error: Exception) -> None:
    if operation.passes(error) or operation.record.is_past_return or _has_activated(operation, runner):
        operation.note_failure(error)
    else:
        operation.abandon(error)
        runner.clean_up(operation)


def _has_activated(operation: Operation, runner: StepRunner) -> bool:
    try:
        return runner.find_activated(operation.record) is not None
    except SessionizerError:
        return True
