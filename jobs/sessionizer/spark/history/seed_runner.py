"""Runner of a seed: a history is read and kept, a lineage begins with its open events, then the tables are written.

Killed anywhere it is done again from its record. The results of the history are kept until the end, so a second run
takes nothing else. The finished sessions are written last, under the new lineage's batch 0, which a table takes once.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from sessionizer.checkpoint.log_entries import PARTITIONS, partitions_of
from sessionizer.control.execution import Step
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.core.wire import rows
from sessionizer.core.wire.canonical import canonical_schema
from sessionizer.counts import count_text
from sessionizer.deployment.running_spec import new_record
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import remove_tree
from sessionizer.home.stream_home import ANNOUNCED_TIMEOUTS, StreamHome
from sessionizer.lineage.batch_log import BatchLog, table_key
from sessionizer.lineage.kept_spec import sink_folders
from sessionizer.spark.ingest.timeout_table import announcement
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.tables import have_tables
from sessionizer.spark.sinks.write import Sinks
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.open_events import open_event_schema, select_open_events
from sessionizer.spark.state.restores.table_rows import count_changes
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.seeds import Seed, SeedPlan
from sessionizer.state.commands.steps import KeepTypes, ReadHistory, WriteFinishedSessions
from sessionizer.state.lineages.origin import Origin, origins_of
from sessionizer.state.lineages.state_transfer import StateTransfer, settle
from sessionizer.state.restores.row_changes import RowChanges, StreamedTable, deletion_of_all, streamed_tables

if TYPE_CHECKING:
    from sessionizer.spark.history.history_reader import HistoryReader, HistoryResults

_SEED_BATCH: Final = 0


@dataclass(kw_only=True)
class SeedRunner(SparkRunner[Seed]):
    """Runner of a seed with the history that ``reader`` reads."""

    reader: HistoryReader
    _history: HistoryResults | None = field(default=None, init=False)

    def look(self) -> Plan[SeedPlan]:
        """Make the plan with its current figures. Nothing is kept."""
        with tempfile.TemporaryDirectory(prefix="seed-plan-") as scratch:
            figures = self.reader.figures(Path(scratch))
        decision = self.reader.decision
        leaving = count_deleted_rows(self.reader, self.home) if decision.leaves is not None else {}
        plan = self.command.plan(decision)
        return replace(plan, decision=replace(decision, figures=figures, leaving=leaving))

    def plan_again(self, record: OperationRecord) -> Plan[SeedPlan]:  # noqa: ARG002  the interface
        """Make the plan without its figures, because the history is read anyway."""
        return self.command.plan(self.reader.decision)

    def run_own(self, step: Step, operation: Operation) -> str | None:
        """Run a step that only a seed has."""
        match step:
            case ReadHistory():
                self._read(operation)
            case KeepTypes():
                settle(self.home, self.activated(operation), self._read(operation).kept)
            case WriteFinishedSessions():
                self._fill_tables(self.activated(operation), self._read(operation), operation.permit)
            case _:
                return super().run_own(step, operation)
        return None

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage with the open events of the history."""
        reader, taken = self.reader, self._read(operation)
        transfer = StateTransfer(
            origin=Origin(self.command.name, epoch_ms(), reader.decision.leaves),
            spec=new_record(self.home, reader.spec),
            kept=taken.kept,
            watermark_ms=taken.figures.watermark_ms,
            offset=taken.place.offset,
            seen=taken.place.seen,
            timeouts=taken.timeouts,
            records={ANNOUNCED_TIMEOUTS: announcement(taken.timeouts)} if taken.timeouts else {},
        )
        partitions = partitions_of(reader.spark.conf.get(PARTITIONS), reader.spec.key_groups)
        state = select_open_events(taken.frame(reader.spark), canonical_schema(open_event_schema(taken.kept)))
        self.start_with(state, transfer, reader.spec, partitions, operation, reader.examined)

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return the tables, and all rows that the stream has written so far."""
        return _tables_of(self.reader, self.home), deletion_of_all(origins_of(self.home))

    def clean_up(self, operation: Operation) -> None:
        """Remove the new lineage of a failed try, and the kept results of the history once the seed is over."""
        super().clean_up(operation)
        if operation.record.outcome is not None:
            remove_tree(self.home.seeds)

    def _read(self, operation: Operation) -> HistoryResults:
        """Return the results of the history: the kept ones, else read now and kept."""
        if self._history is None:
            reader = self.reader
            have_tables(reader.spark, self.home, reader.spec, reader.examined.shapes(reader.spec))
            self.say("taking the history")
            self._history = reader.kept(self.home.seeds / operation.record.id, operation.permit)
        return self._history

    def _fill_tables(self, lineage: str, taken: HistoryResults, permit: Callable[[], None]) -> None:
        reader, spec = self.reader, self.reader.spec
        sinks = Sinks(
            lineage,
            self.home.streamed_locations(spec.sink.path),
            reader.examined.guarded.payload_fields,
            GuardedAggregates.of(reader.spark, spec.measures),
            spec.sink.keep_events,
            permit,
            stream=spec.name,
            begun=_SEED_BATCH,
        )
        finished = taken.frame(reader.spark).where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE))
        counts = sinks.write(finished, _SEED_BATCH)
        written = [table_key(spec.sink.path, table) for table in counts.tables]
        BatchLog(self.home.lineage(lineage).batches).note_rows(_SEED_BATCH, written)
        sessions, refused = count_text(counts[rows.SESSIONS], "session"), count_text(counts[rows.QUARANTINE], "row")
        self.say(f"tables: {sessions}, {refused} in quarantine")


def count_deleted_rows(reader: HistoryReader, home: StreamHome) -> dict[str, int]:
    """Count the rows of each table that a start over deletes, in all folders. Reads only."""
    found = count_changes(reader.spark, home.name, _tables_of(reader, home), deletion_of_all(origins_of(home)))
    counts = Counter[str]()
    for each in found:
        counts[each.table] += each.rows
    return dict(counts)


def _tables_of(reader: HistoryReader, home: StreamHome) -> list[StreamedTable]:
    return streamed_tables(home, (reader.spec.sink.path, *sink_folders(home, origins_of(home))), {})
