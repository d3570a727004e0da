"""Base of the runners: the steps that several commands share, on Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sessionizer.spark.state.lineages.new_lineage import NewLineage
from sessionizer.spark.state.restores.table_rows import change_rows, count_changes
from sessionizer.state.commands.steps import (
    Activate,
    Canary,
    Compare,
    DeleteLaterRows,
    PointOfNoReturn,
    SetPosition,
    StartLineage,
    Stop,
)
from sessionizer.state.preconditions import find_changed_lineage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from sessionizer.control.execution import Step
    from sessionizer.control.operation import Operation
    from sessionizer.control.plan_changes import Decided
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.state.commands.command import Plan
    from sessionizer.state.lineages.state_transfer import StateTransfer
    from sessionizer.state.restores.row_changes import RowChanges, StreamedTable
    from sessionizer.stream_spec.document.stream import StreamSpec

    Say: TypeAlias = Callable[[str], None]


@dataclass(kw_only=True)
class SparkRunner(ABC):
    """Runner of the steps of a command on the stream of ``home``. ``say`` is called with each line of progress."""

    spark: SparkSession
    home: StreamHome
    say: Say = lambda _: None
    new: NewLineage | None = field(default=None, init=False)

    @abstractmethod
    def plan_again(self, record: OperationRecord) -> Plan[Decided]:
        """Make the plan under the lease. Writes nothing."""

    def find_activated(self, record: OperationRecord) -> str | None:
        """Return the lineage of an earlier try that made the decisive change. None: no try did."""
        return find_changed_lineage(self.home, record)

    def last_steps(self) -> Sequence[Step]:
        """Return the steps that follow the decisive change."""
        return ()

    def run(self, step: Step, operation: Operation) -> str | None:
        """Run a step. Return the active lineage if the step is the decisive change."""
        match step:
            case Stop():
                pass  # the lease was taken before, by ``control.maintenance``
            case StartLineage():
                self.start_lineage(operation)
            case Compare():
                self.made.compare()
            case SetPosition():
                self.made.set_position()
            case Canary(terms=terms):
                self.made.begin_canary(terms)
            case PointOfNoReturn():
                self._require_rows(operation)
            case DeleteLaterRows():
                tables, changes = self.row_changes()
                change_rows(self.spark, operation, tables, changes, operation.permit, self.say)
            case Activate():
                return self.activate()
            case _:
                return self.run_own(step, operation)
        return None

    def run_own(self, step: Step, operation: Operation) -> str | None:
        """Run a step that only this command has."""
        raise NotImplementedError(step, operation)

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage of the command."""
        raise NotImplementedError(operation)

    def begin(
        self, spec: StreamSpec, examined: Examined, partitions: int, transfer: StateTransfer, operation: Operation
    ) -> None:
        """Prepare a new lineage by ``spec`` with so many ``partitions``. Nothing of it is made yet."""
        self.new = NewLineage(
            spark=self.spark,
            home=self.home,
            spec=spec,
            examined=examined,
            partitions=partitions,
            transfer=transfer,
            permit=operation.permit,
            after=lambda step: self.say(f"new lineage: {step}"),
        )

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return the tables of the stream, and the rows that leave them and come back."""
        raise NotImplementedError

    def activate(self) -> str:
        """Make the lineage of the command active, and return it."""
        return self.made.activate()

    def clean_up(self, operation: Operation) -> None:  # noqa: ARG002  the interface
        """Remove the new lineage of a failed try."""
        if self.new is not None:
            self.new.remove()
            self.new = None

    @property
    def made(self) -> NewLineage:
        """The lineage that this try started."""
        assert self.new is not None  # noqa: S101  a plan starts it first
        return self.new

    def _require_rows(self, operation: Operation) -> None:
        """Raise RowsGone if rows that should come back cannot be read any more."""
        tables, changes = self.row_changes()
        if changes.missing:
            count_changes(self.spark, operation.home.name, tables, changes)
