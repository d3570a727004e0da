"""A seed as the command carries it out, in this process."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from sessionizer.control.execution import execute
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import OperationRecord, pending_operation
from sessionizer.spark.history.history_reader import HistoryReader
from sessionizer.spark.history.history_rows import find_history
from sessionizer.spark.history.seed_runner import SeedRunner
from sessionizer.spark.sinks.examine import examine
from sessionizer.state.commands.seeds import Seed, SeedPlan
from sessionizer.stream_spec.decisions import spec_fingerprint
from support.streams.stage import Stage


def reader_of(
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
    past, source = find_history(history, spec.source, *table, query)
    pending = pending_operation(stage.stream_home)
    leaves = stage.lineage if pending is None else pending.lineage_from or None
    decision = SeedPlan(stage.name, spec_fingerprint(spec), past, until_ms, live_from, backfill, leaves)
    return HistoryReader(spark, spec, examine(spark, spec, stage.home), source, decision, stage.home)


def seed(stage: Stage, reader: HistoryReader, say: Callable[[str], None] = lambda _: None) -> OperationRecord:
    """Carry it out, or go on with one that was killed."""
    home = stage.stream_home
    home.prepare()
    left = (reader.decision.leaves or "", -1)
    record = pending_operation(home) or new_operation(home, Seed.name, reader.decision.digest, "tests", left)
    job = Maintenance(f"{Seed.name}-{record.id}", "tests", "tests", record.wanted)
    with hold_lease(home, job, 10, say) as lease:
        command = seed_command("history", reader)
        runner = SeedRunner(spark=reader.spark, home=home, say=say, command=command, reader=reader)
        return execute(Operation(home, record, lease.check), runner)


def seed_command(history: str, reader: HistoryReader) -> Seed:
    """The command that comes to what is taken."""
    decision = reader.decision
    return Seed(history=history, backfill=decision.backfill, start_over=decision.leaves is not None)
