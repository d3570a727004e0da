"""Base of the runners: the steps that several commands share, on Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from pyspark.sql import SparkSession

from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation
from sessionizer.control.records.erasure_record import read_erased
from sessionizer.control.records.operation_record import OperationRecord, read_operations
from sessionizer.core.wire.erased_keys import ErasedKeys
from sessionizer.deployment.differences import Division
from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import JsonObject
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import KeptTypes, LineageSpec
from sessionizer.spark.ingest.expressions import is_same_expression
from sessionizer.spark.ingest.guard import require_erased_columns, require_fitting
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.sinks.examine import Examined, examine
from sessionizer.spark.sinks.tables import delete_open_sessions, require_tables_fit
from sessionizer.spark.state.lineages.migrated_events import MigratedEvents
from sessionizer.spark.state.lineages.new_lineage import NewLineage, State, transfer_state
from sessionizer.spark.state.restores.table_rows import change_rows, count_changes
from sessionizer.state.commands.command import Command, Plan
from sessionizer.state.commands.registry import find_changed_lineage
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
from sessionizer.state.lineages.committed_batch import CommittedBatch, StateTransfer
from sessionizer.state.lineages.origin import Origin, remove_abandoned, remove_lineage
from sessionizer.state.restores.row_changes import RowChanges, StreamedTable
from sessionizer.stream_spec.decisions import Document, changes_between, decisions_of, list_decisions
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    Say: TypeAlias = Callable[[str], None]

Asked = TypeVar("Asked", bound=Command)


@dataclass(kw_only=True)
class SparkRunner(ABC, Generic[Asked]):
    """Runner of the steps of ``command``. ``say`` gets lines of progress. ``lineage``: id of the new one."""

    spark: SparkSession
    home: StreamHome
    command: Asked
    say: Say = lambda _: None
    new: NewLineage | None = field(default=None, init=False)
    lineage: str = field(default="", init=False)
    _before: list[OperationRecord] | None = field(default=None, init=False)

    @contextmanager
    def prepared(self, record: OperationRecord) -> Iterator[None]:
        """Start the new lineage while the stream runs, if the command can. Remove it if the block did not take it."""
        try:
            if self.command.prepares:
                self._before = [each for each in read_operations(self.home) if each.id != record.id]
                self.lineage = mint_id(epoch_ms())
                self.start_lineage(Operation(self.home, record, lambda: None))
                self.made.compare()
                self.say("the new lineage is ready: the stream is stopped now")
            yield
        finally:
            self._remove_new()

    def _have_lineage(self, operation: Operation) -> None:
        """Start the new lineage, unless the one that was started while the stream ran is still as it would be now."""
        others = [each for each in read_operations(self.home) if each.id != operation.record.id]
        if self._before != others:  # another command may have removed it, or erased keys
            self._remove_new()
        remove_abandoned(self.home, self.lineage)
        if self.new is not None:
            self.new.permit = operation.permit
        else:
            self.lineage = mint_id(epoch_ms())
            self.start_lineage(operation)

    def _remove_new(self) -> None:
        """Remove the new lineage unless it may be active, with the results of a migration."""
        if self.new is not None:
            self.new.remove()
        elif self.lineage:
            remove_lineage(self.home, self.lineage)
        self.new, self.lineage, self._before = None, "", None

    @abstractmethod
    def look(self) -> Plan[Any]:
        """Make the plan. Writes nothing."""

    def same_to_spark(self, before: Document, spec: StreamSpec) -> frozenset[str]:
        """Return the expressions of the mapping that are only written otherwise, over a source that did not change."""
        changes = changes_between(list_decisions(before), decisions_of(spec))
        written = [each for each in changes if each.field.startswith("mapping.") and each.before and each.now]
        if not written or any(each.field.startswith("source.") for each in changes):
            return frozenset()
        rows = read_source(self.spark, spec.source, self.home.platform, spec.rules.max_event_bytes, stream=True)
        return frozenset(each.field for each in written if is_same_expression(rows, each.before, each.now))

    def examine_file(self, spec: StreamSpec, kept: KeptTypes) -> Examined:
        """Have Spark examine ``spec``. Raises InvalidSpec if the open events (``kept``) or the tables do not fit it."""
        examined = examine(self.spark, spec, self.home.platform)
        require_erased_columns(self.home, examined.guarded.payload)
        require_fitting(spec, examined.guarded.payload, kept)
        require_tables_fit(self.spark, examined.shapes(spec), self.home.streamed_locations(spec.sink.path))
        return examined

    def plan_again(self, record: OperationRecord) -> Plan[Any]:  # noqa: ARG002  the interface
        """Make the plan under the lease. Raises the errors of ``look``."""
        return self.look()

    def find_activated(self, record: OperationRecord) -> str | None:
        """Return the lineage of an earlier try that made the decisive change. None: no try did."""
        return find_changed_lineage(self.home, record)

    def last_steps(self) -> Sequence[Step]:
        """Return the steps that follow the decisive change."""
        return self.command.last_steps

    def run(self, step: Step, operation: Operation) -> str | None:
        """Run a step. Return the active lineage if the step is the decisive change."""
        match step:
            case Stop():  # the lease was taken before, by ``control.maintenance``
                delete_open_sessions(self.spark, self.home)
            case StartLineage():
                self._have_lineage(operation)
            case Compare():
                self.made.compare()
            case SetPosition():
                self.made.set_position()
            case Canary(terms=terms):
                self.made.begin_canary(terms)
            case PointOfNoReturn():
                tables, changes = self.row_changes()
                if changes.missing:  # RowsGone if they cannot be read any more
                    count_changes(self.spark, operation.home.name, tables, changes)
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
        """Start the new lineage of the command. Raises HalfWrittenBatch."""
        raise NotImplementedError(operation)

    def start_after(  # noqa: PLR0913  what a lineage begins with
        self,
        operation: Operation,
        committed: CommittedBatch,
        spec: StreamSpec,
        record: LineageSpec,
        *,
        partitions: int | None = None,
        examined: Examined | None = None,
        same_source: bool = True,
        records: Mapping[str, JsonObject] = MappingProxyType({}),
        migrated: MigratedEvents | None = None,
    ) -> None:
        """Start a lineage by ``spec`` with the state after the batch of ``committed``. Raises HalfWrittenBatch.

        ``record``: of the spec. ``partitions``: None leaves their number. The others are as for ``transfer_state``.
        """
        spark, home = self.spark, self.home
        origin = Origin(self.command.name, epoch_ms(), committed.lineage, committed.batch_id)
        state, transfer = transfer_state(
            spark, home, committed, record, origin, same_source=same_source, records=records, migrated=migrated
        )
        division = Division.read(committed.spec, committed.settings).change(spec.key_groups, partitions)
        self.start_with(state, transfer, spec, division.partitions, operation, examined)

    def start_with(
        self,
        state: State,
        transfer: StateTransfer,
        spec: StreamSpec,
        partitions: int,
        operation: Operation,
        examined: Examined | None = None,
    ) -> None:
        """Start a lineage by ``spec`` with ``state`` in so many ``partitions``. ``examined``: the spec, if it was."""
        self.new = NewLineage(
            spark=self.spark,
            home=self.home,
            spec=spec,
            examined=examined or examine(self.spark, spec, self.home.platform),
            partitions=partitions,
            transfer=transfer,
            permit=operation.permit,
            after=lambda step: self.say(f"new lineage: {step}"),
            erased=self.erased(operation),
            lineage=self.lineage,
        )
        self.new.start(state)

    def erased(self, operation: Operation) -> ErasedKeys:  # noqa: ARG002  the interface
        """Return the keys whose events a new lineage is not to have. Raises InvalidSpec without their secret."""
        return read_erased(self.home)

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return the tables of the stream, and the rows that leave them and come back."""
        raise NotImplementedError

    def activate(self) -> str:
        """Make the lineage of the command active, and return it."""
        return self.made.activate()

    def clean_up(self, operation: Operation) -> None:  # noqa: ARG002  the interface
        """Remove the new lineage of a failed try."""
        self._remove_new()

    @property
    def made(self) -> NewLineage:
        """Lineage that this try started."""
        assert self.new is not None  # noqa: S101  a plan starts it first
        return self.new

    def activated(self, operation: Operation) -> str:
        """Return the lineage that is active since the decisive change, for the steps that follow it."""
        lineage = self.find_activated(operation.record)
        assert lineage is not None  # noqa: S101  the steps that need it follow the decisive change
        return lineage
