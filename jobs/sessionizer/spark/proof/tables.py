"""Comparison of the stream's tables with those of a replay, divided among Spark's workers by the key of the rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS, STREAMED
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.state.proof.comparison import (
    TABLES,
    ComparedTable,
    TableComparison,
    compare_rows,
    comparison_from_json,
    merge_comparisons,
)
from sessionizer.state.proof.result import JudgedDifference, Proof, TableProof

if TYPE_CHECKING:
    from sessionizer.spark.proof.fork import Fork
    from sessionizer.spark.proof.replay import Recording


ROWS_IN_A_PART: Final = 100_000
"""Rows of a table, old and new, that one Python worker compares at a time."""
_PART: Final = "_part"
_EVENT: Final = "event"
_OLD, _NEW = "old", "new"
_FACTS: Final = {SESSIONS: "sessions", LATE_EVENTS: "late", QUARANTINE: "quarantined"}
"""By table, the figure of a batch that says how many rows it wrote there."""


Rows: TypeAlias = "Callable[[str], DataFrame]"
"""The compared rows of a Delta table, which is given by its name."""


def recorded_rows(spark: SparkSession, home: StreamHome, recording: Recording, batches: Collection[int]) -> Rows:
    """Return the rows that ``batches`` wrote into the stream's tables."""
    live = home.table_locations(recording.sink)

    def rows(name: str) -> DataFrame:
        written = spark.read.format("delta").load(live[name])
        return written.where((F.col("lineage") == recording.lineage) & F.col("batch_id").isin(*batches))

    return rows


def replayed_rows(spark: SparkSession, recording: Recording, fork: Fork, batches: Collection[int]) -> Rows:
    """Return the rows of ``batches`` in the tables of the ``fork``.

    A migration writes sessions that were over before it as rows of the batch before.
    """

    def rows(name: str) -> DataFrame:
        written = spark.read.format("delta").load(fork.table(name))
        return written.where(F.col("batch_id").isin(recording.batches.fork_at, *batches))

    return rows


def noted_rows(home: StreamHome, recording: Recording, batches: Collection[int]) -> dict[str, dict[int, int]]:
    """Return, by table and batch, how many rows the driver noted that it wrote."""
    facts = BatchLog(home.lineage(recording.lineage).batches).kept_batches
    return {
        name: {batch: getattr(facts[batch], figure) for batch in batches if batch in facts}
        for name, figure in _FACTS.items()
    }


def compare_tables(
    old: Rows, new: Rows, noted: Mapping[str, Mapping[int, int]]
) -> tuple[dict[str, TableComparison], list[str]]:
    """Compare two sides by table.

    A batch of which the old side lacks rows that are ``noted`` is left out, and named in the second result.
    """

    def compare(name: str) -> tuple[dict[str, TableComparison], str]:
        return _compare_stored(name, old(name), new(name), noted.get(name, {}))

    # side by side, because a small table takes Spark's planning and Delta's log, which use one core
    with ThreadPoolExecutor(thread_name_prefix="compare-table") as pool:
        stored = list(pool.map(compare, STREAMED))
    found = {table: comparison for comparisons, _ in stored for table, comparison in comparisons.items()}
    return found, [note for _, note in stored if note]


def _compare_stored(
    name: str, old: DataFrame, new: DataFrame, noted: Mapping[int, int]
) -> tuple[dict[str, TableComparison], str]:
    """Compare the rows of a Delta table, ``old`` and ``new``. ``noted``: how many old ones each batch wrote.

    The second result names the batches that are left out, and is empty if there are none.
    """
    there, note = _count_rows(old, new), ""
    partial = sorted(batch for batch, count in noted.items() if there[_OLD, batch] != count)
    if partial:
        listed = ", ".join(map(str, partial))
        note = f"{name}: batches {listed} are left out, because the table does not hold all their rows"
        old, new = (each.where(~F.col("batch_id").isin(*partial)) for each in (old, new))
    parts = 1 + there.total() // ROWS_IN_A_PART if there else 0
    sides = {table: (_rows_of(table, old), _rows_of(table, new)) for table in TABLES if table.stored_in == name}
    return {table.name: _compare_frames(*frames, table, parts) for table, frames in sides.items()}, note


def _count_rows(old: DataFrame, new: DataFrame) -> Counter[tuple[str, int]]:
    """Count the rows of each side and batch, in one job."""
    sides = [rows.select(F.lit(side).alias("side"), "batch_id") for side, rows in ((_OLD, old), (_NEW, new))]
    counted = sides[0].union(sides[1]).groupBy("side", "batch_id").count()
    return Counter({(row.side, row.batch_id): row["count"] for row in counted.collect()})


def _rows_of(table: ComparedTable, rows: DataFrame) -> DataFrame:
    """Return the rows of a Delta table that are compared as ``table``."""
    if table.stored_in != QUARANTINE:
        return rows
    conflicts = F.col("reason").eqNullSafe(QuarantineReason.CONFLICTING_DUPLICATE.value)
    if table.name == QUARANTINE:
        return rows.where(~conflicts)
    events = rows.where(conflicts).select(F.from_json("raw", "map<string, string>").alias(_EVENT), "batch_id")
    return events.select(*(F.col(_EVENT)[name].alias(name) for name in table.key), "*")


def _compare_frames(old: DataFrame, new: DataFrame, table: ComparedTable, parts: int) -> TableComparison:
    """Compare the rows of two frames in ``parts``, none if there are no rows. Each row is read once."""
    if not parts:
        return TableComparison()
    part = F.pmod(F.xxhash64(*(F.col(name).cast("string") for name in table.key)), F.lit(parts))
    sides = [each.withColumn(_PART, part).groupBy(_PART) for each in (old, new)]
    compared = sides[0].cogroup(sides[1]).applyInArrow(_comparer(table), "compared string")
    return merge_comparisons(comparison_from_json(json.loads(row.compared)) for row in compared.collect())


def _comparer(table: ComparedTable) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def compare(old: pa.Table, new: pa.Table) -> pa.Table:
        sides = [side.drop_columns([_PART]) if _PART in side.column_names else side for side in (old, new)]
        before, now = map(_name_fields, sides)
        return pa.table({"compared": [json.dumps(compare_rows(before, now, table).to_json())]})

    return compare


def _name_fields(rows: pa.Table) -> pa.Table:
    """Return ``rows`` with the events of conflicting duplicates as structs, which are compared field by field."""
    place = rows.schema.get_field_index(_EVENT)
    if place < 0:
        return rows
    events = [dict(each or ()) for each in rows.column(place).to_pylist()]
    names = sorted({name for event in events for name in event})
    return rows.set_column(place, _EVENT, pa.array(events, pa.struct([(name, pa.string()) for name in names])))


NAME: Final = "proof"
COLUMNS: Final = (
    "proof_id string, proved_at timestamp, lineage string, first_batch bigint, last_batch bigint, verdict string, "
    "table_name string, kind string, columns array<string>, rows bigint, explained_by array<string>, samples string"
)


def add_to_proof_table(spark: SparkSession, home: StreamHome, proof: Proof) -> str:
    """Append the result, and return the place of the table. ``kind`` is ``identical`` for the rows that are equal."""
    location = uri_of(home.table(NAME))
    rows = spark.createDataFrame(list(_rows(proof)), COLUMNS)
    rows.coalesce(1).write.format("delta").mode("append").save(location)
    return location


def _rows(proof: Proof) -> Iterator[tuple[Any, ...]]:
    moment = datetime.fromtimestamp(proof.at / 1000, UTC)
    of_proof = (proof.id, moment, proof.lineage, proof.first, proof.last, str(proof.verdict))
    for table in proof.tables:
        yield (*of_proof, table.table, "identical", [], table.identical, [], "[]")
        yield from ((*of_proof, *_difference(table, judged)) for judged in table.differences)


def _difference(table: TableProof, judged: JudgedDifference) -> tuple[Any, ...]:
    found = judged.difference
    samples = json.dumps([asdict(sample) for sample in found.samples], ensure_ascii=False)
    return table.table, str(found.kind), list(found.columns), found.rows, list(judged.explained_by), samples
