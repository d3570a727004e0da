"""A seed as the command carries it out, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.execution import execute
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.spark.history.beginning import SeedRunner
from sessionizer.spark.history.past_rows import past_at
from sessionizer.spark.history.taking import HistoryReader
from sessionizer.spark.sinks.examine import examine
from sessionizer.state.commands.seed import Seed
from sessionizer.state.seeds.seed_plan import Decision
from sessionizer.stream_spec.decisions import spec_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from sessionizer.control.records.operation_record import OperationRecord
    from support.streams.stage import Stage


def taking_of(
    spark: SparkSession,
    stage: Stage,
    history: str,
    live_from: str,
    until_ms: int | None,
    *,
    backfill: bool = True,
    table: tuple[str | None, str | None] = (None, None),
    query: str | None = None,
) -> HistoryReader:
    """What would be taken. ``table``: its name and the user, in a database. ``query``: of a table or a state."""
    spec = stage.spec()
    past, source = past_at(history, spec.source, *table, query)
    pending = pending_operation(stage.stream_home)
    leaves = stage.lineage if pending is None else pending.lineage_from or None
    decision = Decision(stage.name, spec_fingerprint(spec), past, until_ms, live_from, backfill, leaves)
    return HistoryReader(spark, spec, examine(spark, spec, stage.home), source, decision, stage.home)


def seed(stage: Stage, taking: HistoryReader, say: Callable[[str], None] = lambda _: None) -> OperationRecord:
    """Carry it out, or go on with one that was killed."""
    home = stage.stream_home
    home.prepare()
    left = (taking.decision.leaves or "", -1)
    record = pending_operation(home) or new_operation(home, Seed.name, taking.decision.digest, "tests", left)
    job = Maintenance(f"{Seed.name}-{record.id}", "tests", "tests", record.wanted)
    with hold_lease(home, job, 10, say) as lease:
        command = seed_command("history", taking)
        runner = SeedRunner(spark=taking.spark, home=home, say=say, command=command, taking=taking)
        return execute(Operation(home, record, lease.check), runner)


def seed_command(history: str, taking: HistoryReader) -> Seed:
    """The command that comes to what is taken."""
    decision = taking.decision
    return Seed(history=history, backfill=decision.backfill, start_over=decision.leaves is not None)
