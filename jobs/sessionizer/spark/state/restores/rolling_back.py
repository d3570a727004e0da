"""Carries a rollback out: what the active lineage wrote leaves the tables, then the one before is active again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import Reached
from sessionizer.errors import NothingToSave, PlanChanged
from sessionizer.home.table_places import table_locations
from sessionizer.lineage.active import activate_lineage, active_lineage
from sessionizer.lineage.checkpoint import EVENTS, begun_batch, planned_batch, seen_files
from sessionizer.lineage.kept_spec import read_lineage_spec
from sessionizer.lineage.left_out import read_left_out
from sessionizer.spark.sinks.table_shapes import STREAMED
from sessionizer.spark.state.restores.restore_planning import replay_of
from sessionizer.spark.state.restores.taking_back import later_rows_of, take_all_back
from sessionizer.state.lineages.origin import parents_of, way_back
from sessionizer.state.lineages.standing import FILES
from sessionizer.state.restores.later_rows import rows_after
from sessionizer.state.restores.leave_out import coming_back_remarks
from sessionizer.state.restores.rollback_plan import RollbackPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from sessionizer.control.operation import Operation
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.restores.later_rows import LaterRows
    from sessionizer.state.restores.restore_plan import Replay


def plan_rollback(spark: SparkSession, home: StreamHome) -> RollbackPlan:
    """What would be done. Writes nothing.

    Raises NothingToSave for a stream that never ran, and NoWayBack where the lineage before cannot go on.
    """
    leaves = active_lineage(home)
    if leaves is None:
        raise NothingToSave(home.name, "it never ran")
    origin, before = way_back(home, leaves)
    return RollbackPlan(
        stream=home.name,
        leaves=leaves,
        verb=origin.verb,
        newest_batch=begun_batch(home.checkpoint(leaves)) or 0,
        lineage=before,
        batch_id=origin.batch_id,
        tables=tuple(later_rows_of(spark, _tables_of(home, leaves), _rows(home, before, origin.batch_id))),
        replay=_replay(home, leaves, before, origin.batch_id),
        remarks=tuple(coming_back_remarks(leaves, read_left_out(home, leaves), read_left_out(home, before))),
    )


def roll_back(
    spark: SparkSession, operation: Operation, permit: Callable[[], None], say: Callable[[str], None]
) -> OperationRecord:
    """The record of the operation, done, by whoever has the stream's lease. Killed anywhere it is done again.

    Raises PlanChanged where its digest is not of what would be done, RowsLeft, LeaseLost, and as ``plan_rollback``.
    """
    home, record = operation.home, operation.record
    active = active_lineage(home)
    if active is not None and active != record.lineage_from:  # by a run that was killed after its last step
        return operation.over(active)
    with operation.abandoned_if_it_fails(before=Reached.SEEDED):
        plan = plan_rollback(spark, home)
        if plan.digest != record.digest:
            raise PlanChanged(home.name, record.digest, plan.digest)
        operation.reached(Reached.STOPPED)
    operation.reached(Reached.SEEDED)  # its state is there
    tables, later = _tables_of(home, plan.leaves), _rows(home, plan.lineage, plan.batch_id)
    take_all_back(spark, operation, tables, later, permit, say)
    operation.reached(Reached.TAKEN_BACK)
    permit()
    activate_lineage(home, plan.lineage, parents_of(home).get(plan.lineage))
    return operation.over(plan.lineage)


def _tables_of(home: StreamHome, lineage: str) -> dict[str, str]:
    """The tables that batches of the lineage write: name to location. Raises NothingToSave where its spec is lost."""
    record = read_lineage_spec(home, lineage)
    if record is None:
        raise NothingToSave(home.name, f"lineage {lineage} has no spec")
    places = table_locations(home, record.document["sink"]["path"])
    return {name: places[name] for name in STREAMED}


def _rows(home: StreamHome, lineage: str, batch_id: int) -> LaterRows:
    return rows_after(lineage, batch_id, parents_of(home))


def _replay(home: StreamHome, leaves: str, before: str, batch_id: int) -> Replay:
    records = {lineage: read_lineage_spec(home, lineage) for lineage in (leaves, before)}
    sources = {lineage: record.document["source"] if record else {} for lineage, record in records.items()}
    source, checkpoint = sources[before], home.checkpoint(before)
    then: list[str] = []
    now: list[str] = []
    if source["format"] == FILES:
        then = [file.uri for file in seen_files(checkpoint, batch_id)]
        newest = begun_batch(home.checkpoint(leaves))
        if newest is not None and sources[leaves].get("path") == source["path"]:
            now = [file.uri for file in seen_files(home.checkpoint(leaves), newest)]
    offset = planned_batch(checkpoint, batch_id).ends.get(EVENTS)
    return replay_of(home, source, offset, then, now)
