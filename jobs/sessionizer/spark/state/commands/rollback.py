"""Runner of a rollback: the rows of the active lineage leave the tables, then the one before is active again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sessionizer.checkpoint.batch_logs import read_begun_batch, read_planned_batch
from sessionizer.checkpoint.file_lists import read_seen_files
from sessionizer.checkpoint.names import EVENTS
from sessionizer.deployment.releases import programs_needed
from sessionizer.errors import InvalidSpec
from sessionizer.lineage.active import activate_lineage
from sessionizer.lineage.excluded_ranges import read_excluded_ranges
from sessionizer.lineage.kept_spec import SPEC_FILE, sink_folders
from sessionizer.lineage.source_ids import read_source_ids
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.restores.restore_planning import replay_of
from sessionizer.spark.state.restores.table_rows import count_changes
from sessionizer.state.commands.rollback import Rollback
from sessionizer.state.lineages.committed_batch import FILES
from sessionizer.state.lineages.origin import ORIGIN_FILE, lineage_before, origins_of, rollback_of, undo_in_place
from sessionizer.state.lineages.path import path_to
from sessionizer.state.restores.resolved_ranges import coming_back_remarks
from sessionizer.state.restores.rollback_plan import RollbackPlan
from sessionizer.state.restores.row_changes import changes_to, streamed_tables
from sessionizer.stream_spec.loading.spec_file import parse_recorded_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.kept_spec import LineageSpec
    from sessionizer.state.commands.command import Plan
    from sessionizer.state.restores.restore_plan import Replay
    from sessionizer.state.restores.row_changes import RowChanges, StreamedTable
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(kw_only=True)
class RollbackRunner(SparkRunner):
    """Runner of a rollback."""

    command: Rollback = field(default_factory=Rollback)
    _found: RollbackPlan | None = field(default=None, init=False)

    def look(self) -> Plan[RollbackPlan]:
        """Make the plan. Writes nothing.

        Raises NothingToSave for a stream that never ran, and NoWayBack if the lineage before cannot resume.
        """
        self._found = plan_rollback(self.spark, self.home)
        return self.command.plan(self._found)

    def plan_again(self, record: OperationRecord) -> Plan[RollbackPlan]:  # noqa: ARG002  the interface
        """Make the plan under the lease. Raises the errors of ``look``."""
        return self.look()

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return the tables, and the rows that leave them and come back."""
        plan = self._plan
        return _tables_of(self.home, plan.leaves), _changes(self.home, plan.leaves, plan.lineage)

    def activate(self) -> str:
        """Make the lineage before active again, and return it."""
        lineage = self._plan.lineage
        origin = ORIGIN_FILE.of(self.home, lineage).require()
        activate_lineage(self.home, lineage, origin.parent if origin else None, lineage_before(self.home, lineage))
        return lineage

    @property
    def _plan(self) -> RollbackPlan:
        assert self._found is not None  # noqa: S101  the executor plans first
        return self._found


def plan_rollback(spark: SparkSession, home: StreamHome) -> RollbackPlan:
    """Make the plan. Writes nothing.

    Raises NothingToSave for a stream that never ran, and NoWayBack if the lineage before cannot resume.
    """
    (origin, before, batch_id), leaves = rollback_of(home)
    newest = read_begun_batch(home.checkpoint(leaves))
    return RollbackPlan(
        stream=home.name,
        leaves=leaves,
        verb=origin.verb,
        newest_batch=-1 if newest is None else newest,
        lineage=before,
        batch_id=batch_id,
        tables=tuple(count_changes(spark, home.name, _tables_of(home, leaves), _changes(home, leaves, before))),
        replay=_replay(spark, home, leaves, before, batch_id),
        remarks=(
            *coming_back_remarks(leaves, read_excluded_ranges(home, leaves), read_excluded_ranges(home, before)),
            *programs_needed(home, before),
            *undo_in_place(home, leaves),
        ),
    )


def _tables_of(home: StreamHome, leaves: str) -> list[StreamedTable]:
    """Return every table that a batch of the stream writes or wrote, those of the lineage that is left first."""
    record, origins = SPEC_FILE.of(home, leaves).require(), origins_of(home)
    current, origin = () if record is None else (record.sink,), origins.get(leaves)
    versions = origin.tables if origin else {}
    tables = streamed_tables(home, (*current, *sink_folders(home, origins)), {})
    return [replace(table, version=versions.get(table.location)) for table in tables]


def _changes(home: StreamHome, leaves: str, before: str) -> RowChanges:
    """Return the row changes. Rows of a batch that ``before`` has begun count: it goes on with that batch."""
    origins = origins_of(home)
    return changes_to(path_to(before, None, origins), path_to(leaves, None, origins), origins)


def _replay(spark: SparkSession, home: StreamHome, leaves: str, before: str, batch_id: int) -> Replay:
    records = {lineage: SPEC_FILE.of(home, lineage).require() for lineage in (leaves, before)}
    sources = {lineage: record.document["source"] if record else {} for lineage, record in records.items()}
    source, checkpoint = sources[before], home.checkpoint(before)
    then: list[str] = []
    now: list[str] = []
    if source["format"] == FILES:
        then = [file.uri for file in read_seen_files(checkpoint, batch_id)]
        newest = read_begun_batch(home.checkpoint(leaves))
        if newest is not None and sources[leaves].get("path") == source["path"]:
            now = [file.uri for file in read_seen_files(home.checkpoint(leaves), newest)]
    offset = read_planned_batch(checkpoint, batch_id).ends.get(EVENTS)
    spec, noted = _spec_of(home, before, records[before]), read_source_ids(home, before)
    return replay_of(spark, home, source, offset, then, now, spec=spec, noted=noted)


def _spec_of(home: StreamHome, lineage: str, record: LineageSpec | None) -> StreamSpec | None:
    """Return the recorded spec of the lineage, None if it has none or this release refuses it."""
    try:
        return parse_recorded_spec(record.document, SPEC_FILE.of(home, lineage).path) if record else None
    except InvalidSpec:
        return None
