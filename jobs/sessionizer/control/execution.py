"""Execution of an operation's steps, and the comparison of the approved plan with the plan now.

There is one executor for every command. Killed anywhere, it runs again from the record.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import (
    OperationRecord,
    OperationStage,
    read_operations,
    read_requests,
)
from sessionizer.counts import count_text
from sessionizer.errors import LeaseLost, PlanChanged, SessionizerError
from sessionizer.home.clock import moment_text
from sessionizer.home.json_record import typed_digest
from sessionizer.home.stream_home import StreamHome

LISTED: Final = 5
_LONGEST: Final = 60
_CANARY: Final = "canary"
_WORDS: Final = {
    "batch_id": "batch",
    "fingerprint": "spec",
    "leaves": "lineage that is left",
    "excluded_ranges.ranges": "excluded ranges",
    "live_from": "begin of the live source",
    "lost": "lost events",
    "manifest": "manifest of the savepoint",
    "past.format": "format of the history",
    "past.place": "history",
    "past.version": "version of the history",
    "start.at": "moment at which the new source begins",
    "start.edge": "end at which the new source begins",
    "until_ms": "end of the history",
}
"""Names of decided fields for users. Any other field has its own name."""


class Decided(Protocol):
    """Decision of a command."""

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers. Empty if an earlier release wrote them."""

    @property
    def digest(self) -> str:
        """Digest of the decision: 16 hex digits, the same on any machine."""


class DigestOfDecided:
    """Base of a decision whose digest is computed from its ``decided`` fields."""

    __slots__ = ()

    # a subclass has a property, or a field of a dataclass, which would take a property for its default
    if TYPE_CHECKING:

        @property
        def decided(self) -> Mapping[str, Any]:
            """Fields that the digest covers."""

    @property
    def digest(self) -> str:
        """Digest of the decision: 16 hex digits, the same on any machine."""
        return typed_digest(self.decided)


@dataclass(frozen=True)
class DecidedFields(DigestOfDecided):
    """Decision of a command before its plan is made: the fields that are ``decided``."""

    decided: Mapping[str, Any] = field(default_factory=dict)


def require_approved(home: StreamHome, approved: str, now: Decided, known: Mapping[str, Any] | None = None) -> None:
    """Raise PlanChanged unless ``now`` has the ``approved`` digest. ``known``: the approved decided fields."""
    if approved != now.digest:
        before = known or find_decided(home, approved)
        raise PlanChanged(home.name, approved, now.digest, list_differences(before, now.decided))


def find_decided(home: StreamHome, digest: str) -> Mapping[str, Any]:
    """Find the decided fields of a plan by its ``digest``, {} if no record has them. Never raises."""
    with suppress(SessionizerError):
        kept: list[Decided] = [*read_requests(home), *read_operations(home)]
        return next((each.decided for each in kept if each.digest == digest and each.decided), {})
    return {}


def list_differences(approved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a text for each field that differs, ``LISTED`` at most. Empty if one of the plans is unknown. Pure."""
    if not approved or not now:
        return ()
    before, after = (dict(_leaves(json.loads(json.dumps(each)))) for each in (approved, now))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    found = [_describe(name, before.get(name), after.get(name)) for name in names]
    return (*found[:LISTED], *((f"{len(found) - LISTED} more",) if len(found) > LISTED else ()))


def _leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _describe(name: str, before: Any, now: Any) -> str:  # noqa: ANN401  any value of JSON
    """Name the field and both values. Of lists only the parts that differ are shown."""
    if isinstance(before, list) and isinstance(now, list) and name != _CANARY:
        before, now = ([each for each in this if each not in that] for this, that in ((before, now), (now, before)))
    word = _WORDS.get(name, name.replace("_", " ").replace(".", " "))
    return f"{word}: {_cut(_show(name, before))} → {_cut(_show(name, now))}"


def _show(name: str, value: Any) -> str:  # noqa: ANN401  any value of JSON
    if name == _CANARY:
        return _show_canary(value)
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith(("_ms", ".at")):
        return moment_text(value)
    if isinstance(value, list):
        return ", ".join(_show_item(each) for each in value)
    return str(value)


def _show_canary(terms: list[Any] | None) -> str:
    """Describe the terms of a canary as a digest has them: None stands for the usual ones."""
    if terms is None:
        return "the usual one"
    batches, goes_back = terms
    return f"{count_text(batches, 'batch')}{', with a rollback' if goes_back else ''}" if batches else "none"


def _show_item(item: Any) -> str:  # noqa: ANN401  any value of JSON
    if isinstance(item, list):
        return f"{item[0]} = {item[-1]}"
    return str(next(iter(item.values()), "")) if isinstance(item, dict) else str(item)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


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
