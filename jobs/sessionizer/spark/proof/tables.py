"""Comparison of the stream's tables with those of a replay, divided among Spark's workers by the key of the rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from sessionizer.home.table_places import table_locations
from sessionizer.lineage.trial.batch_log import BatchLog
from sessionizer.state.proof.comparison import (
    TABLES,
    TableComparison,
    compare_rows,
    comparison_from_json,
    merge_comparisons,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.trial.figures import BatchFacts
    from sessionizer.spark.proof.fork import Fork
    from sessionizer.spark.proof.recording import Recording
    from sessionizer.state.proof.comparison import ComparedTable

ROWS_IN_A_PART: Final = 100_000
"""Rows of a table, old and new, that one Python worker compares at a time."""
_PART: Final = "_part"
_FACTS: Final = {"sessions": "sessions", "late_events": "late", "quarantine": "quarantined"}
"""By table, the figure of a batch that says how many rows it wrote there."""


def compare_tables(
    spark: SparkSession, home: StreamHome, recording: Recording, fork: Fork, batches: Collection[int]
) -> tuple[dict[str, TableComparison], list[str]]:
    """Compare the rows of ``batches`` in the stream's tables with those in the tables of the ``fork``, by table.

    A batch of which a table does not hold all rows any more is left out, and named in the second result.
    """
    live = table_locations(home, recording.sink)
    facts = BatchLog(home.lineage(recording.lineage).batches).kept_batches
    found, notes = {}, []
    for table in TABLES:
        old = spark.read.format("delta").load(live[table.name])
        old = old.where((F.col("lineage") == recording.lineage) & F.col("batch_id").isin(*batches))
        new = spark.read.format("delta").load(fork.table(table.name))
        # a migration writes sessions that were over before it as rows of the batch before
        new = new.where(F.col("batch_id").isin(recording.batches.fork_at, *batches))
        partial = _partial_batches(old, table.name, facts, batches)
        if partial:
            listed = ", ".join(map(str, partial))
            notes.append(f"{table.name}: batches {listed} are left out, because the table does not hold all their rows")
            old, new = (each.where(~F.col("batch_id").isin(*partial)) for each in (old, new))
        found[table.name] = compare_frames(old, new, table)
    return found, notes


def compare_frames(old: DataFrame, new: DataFrame, table: ComparedTable) -> TableComparison:
    """Compare the rows of two frames. Each row is read once, and no more than some parts are in memory."""
    rows = old.count() + new.count()
    if not rows:
        return TableComparison()
    part = F.pmod(F.xxhash64(*(F.col(name).cast("string") for name in table.key)), F.lit(1 + rows // ROWS_IN_A_PART))
    sides = [each.withColumn(_PART, part).groupBy(_PART) for each in (old, new)]
    compared = sides[0].cogroup(sides[1]).applyInArrow(_comparer(table), "compared string")
    return merge_comparisons(comparison_from_json(json.loads(row.compared)) for row in compared.collect())


def _comparer(table: ComparedTable) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def compare(old: pa.Table, new: pa.Table) -> pa.Table:
        sides = [side.drop_columns([_PART]) if _PART in side.column_names else side for side in (old, new)]
        return pa.table({"compared": [json.dumps(compare_rows(sides[0], sides[1], table).to_json())]})

    return compare


def _partial_batches(
    rows: DataFrame, table: str, facts: Mapping[int, BatchFacts], batches: Collection[int]
) -> list[int]:
    """Return the batches of which a table has another number of rows than the driver noted when it wrote them."""
    there: dict[int, Any] = {row.batch_id: row["count"] for row in rows.groupBy("batch_id").count().collect()}
    noted = {batch: getattr(facts[batch], _FACTS[table]) for batch in batches if batch in facts}
    return sorted(batch for batch, count in noted.items() if there.get(batch, 0) != count)
