"""Proof that a release and a spec give the sessions that the stream's tables hold.

``prove_and_keep`` is the entry for ``sessionizer prove`` and for an upgrade.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pydantic import TypeAdapter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import make_data_folder
from sessionizer.home.names import LATE_EVENTS, PROOF, QUARANTINE, SESSIONS, STREAMED, mint_id
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.fingerprint import JAVA, SPARK, present_fingerprint, read_fingerprint
from sessionizer.spark.proof.replay import (
    Fork,
    Recording,
    Replayed,
    fork_recorded,
    read_recording,
    replay,
    replay_spec,
    scratch_folder,
)
from sessionizer.spark.session import jvm_version
from sessionizer.state.proof.comparison import (
    EVENT,
    TABLES,
    ComparedTable,
    TableComparison,
    compare_rows,
    merge_comparisons,
    name_event_fields,
)
from sessionizer.state.proof.result import BATCHES, Proof, TableProof, judge_table, keep_page, release_differences
from sessionizer.stream_spec.document.stream import StreamSpec

_OLD_SPEC: Final = "by_recorded_spec"


class KeptProof(NamedTuple):
    """A proof, and where its page and its rows of the Delta table ``proof`` are kept."""

    proof: Proof
    page: str
    table: str


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """Number of ``batches`` to replay: the newest ones, or those from the batch ``first`` on."""

    batches: int = BATCHES
    first: int | None = None


def prove_and_keep(
    spark: SparkSession,
    home: StreamHome,
    spec: StreamSpec,
    request: ProofRequest | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> KeptProof:
    """Prove, add the result to the Delta table ``proof``, and keep its page in the control directory.

    An upgrade calls this before it activates a lineage, by the spec and the code that the lineage is to run by. Then
    ``kept.proof.require(accepted)`` raises ReplayDiffers unless all unexplained rows are accepted by name. Raises the
    errors of ``prove_by_replay``, and OSError.
    """
    proof = prove_by_replay(spark, home, spec, request, say)
    table = add_to_proof_table(spark, home, proof)
    return KeptProof(proof, str(keep_page(home, proof)), table)


def prove_by_replay(
    spark: SparkSession,
    home: StreamHome,
    spec: StreamSpec,
    request: ProofRequest | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Proof:
    """Replay recorded batches of the stream by this code and ``spec``, and compare their rows with its tables.

    Changes nothing of the stream, which may run meanwhile. Raises NothingToProve, UnreadableLineage, InvalidSpec if the
    spec does not fit, BatchOutrun if the stream is faster, UnwritablePath, DiskFull.
    """
    asked, at = request or ProofRequest(), epoch_ms()
    proof_id = mint_id(at)
    recording = read_recording(spark, home, spec, asked.batches, asked.first)
    with scratch_folder(home, proof_id) as folder:
        examined, fork = fork_recorded(spark, recording, folder)
        say(f"replaying batches {recording.batches.first} to {recording.batches.last} of lineage {recording.lineage}")
        replayed = replay(spark, recording, fork, examined, say)
        tables, notes = _judge(spark, recording, fork, replayed, say)
    present = present_fingerprint({SPARK: spark.version, JAVA: jvm_version(spark)})
    return Proof(
        id=proof_id,
        stream=home.name,
        lineage=recording.lineage,
        at=at,
        first=recording.batches.first,
        last=recording.batches.last,
        events=replayed.events,
        replay_seconds=round(replayed.seconds, 1),
        release=release_differences(read_fingerprint(home, recording.lineage), present),
        changes=tuple(map(str, recording.changes)),
        tables=tables,
        notes=(*recording.notes, *notes),
        died=replayed.died,
    )


def _judge(
    spark: SparkSession, recording: Recording, fork: Fork, replayed: Replayed, say: Callable[[str], None]
) -> tuple[tuple[TableProof, ...], list[str]]:
    """Compare the old rows with the new ones, and tell the doing of the release from that of a changed spec."""
    batches, live = replayed.batches, recording.home.table_locations(recording.sink)
    facts = BatchLog(recording.home.lineage(recording.lineage).batches).kept_batches
    noted = {
        name: {batch: getattr(facts[batch], figure) for batch in batches if batch in facts}
        for name, figure in _FACTS.items()
    }

    def old(name: str) -> DataFrame:
        written = spark.read.format("delta").load(live[name])
        return written.where((F.col("lineage") == recording.lineage) & F.col("batch_id").isin(*batches))

    new = replayed_rows(spark, recording, fork, batches)
    compared, notes = compare_tables(old, new, noted)
    of_release, of_spec = compared, {name: TableComparison() for name in compared}
    if recording.changes and replayed.died is None and any(each.differences for each in compared.values()):
        say("rows differ, and the spec changed: the batches are replayed by the recorded spec, too")
        base = _replay_by_old_spec(spark, recording, replayed, fork.folder / _OLD_SPEC, say)
        if isinstance(base, str):
            notes.append(base)
        else:
            of_release, of_spec = compare_tables(old, base, noted)[0], compare_tables(base, new, {})[0]
    changes = tuple(change.field for change in recording.changes)
    return tuple(
        judge_table(table, compared[table.name], of_release[table.name], of_spec[table.name], changes)
        for table in TABLES
    ), notes


def _replay_by_old_spec(
    spark: SparkSession, recording: Recording, replayed: Replayed, folder: DataPath, say: Callable[[str], None]
) -> Rows | str:
    """Replay by the recorded spec, for what the code alone changes. Returns rows, or a note if it cannot."""
    make_data_folder(folder)
    by_old = replace(recording, spec=replay_spec(recording.old_spec, recording.spec.key_groups), changes=(), waiting=())
    try:
        examined, fork = fork_recorded(spark, by_old, folder)
    except InvalidSpec as error:
        return f"no difference is explained, because this release cannot run the recorded spec: {error}"
    died = replay(spark, by_old, fork, examined, say).died
    if died is not None:
        return f"no difference is explained, because batch {died.batch_id} failed by the recorded spec: {died.cause}"
    return replayed_rows(spark, by_old, fork, replayed.batches)


ROWS_IN_A_PART: Final = 100_000
"""Rows of a table, old and new, that one Python worker compares at a time."""
_COMPARISON: Final = TypeAdapter(TableComparison)
_PART: Final = "_part"
_OLD, _NEW = "old", "new"
_FACTS: Final = {SESSIONS: "sessions", LATE_EVENTS: "late", QUARANTINE: "quarantined"}
"""By table, the figure of a batch that says how many rows it wrote there."""


Rows: TypeAlias = "Callable[[str], DataFrame]"
"""The compared rows of a Delta table, which is given by its name."""


def replayed_rows(spark: SparkSession, recording: Recording, fork: Fork, batches: Collection[int]) -> Rows:
    """Return the rows of ``batches`` in the ``fork``. Sessions before a migration are in the batch before."""

    def rows(name: str) -> DataFrame:
        written = spark.read.format("delta").load(fork.table(name))
        return written.where(F.col("batch_id").isin(recording.batches.fork_at, *batches))

    return rows


def compare_tables(
    old: Rows, new: Rows, noted: Mapping[str, Mapping[int, int]]
) -> tuple[dict[str, TableComparison], list[str]]:
    """Compare two sides by table, without batches that lack rows which are ``noted``: these are named."""

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
    """Compare the rows of a Delta table, and name the batches that are left out, as for ``compare_tables``."""
    sides = [rows.select(F.lit(side).alias("side"), "batch_id") for side, rows in ((_OLD, old), (_NEW, new))]
    counted = sides[0].union(sides[1]).groupBy("side", "batch_id").count().collect()
    there, note = Counter({(row.side, row.batch_id): row["count"] for row in counted}), ""
    partial = sorted(batch for batch, count in noted.items() if there[_OLD, batch] != count)
    if partial:
        listed = ", ".join(map(str, partial))
        note = f"{name}: batches {listed} are left out, because the table does not hold all their rows"
        old, new = (each.where(~F.col("batch_id").isin(*partial)) for each in (old, new))
    parts = 1 + there.total() // ROWS_IN_A_PART if there else 0
    tables = [table for table in TABLES if table.stored_in == name]
    return {
        table.name: _compare_frames(_rows_of(table, old), _rows_of(table, new), table, parts) for table in tables
    }, note


def _rows_of(table: ComparedTable, rows: DataFrame) -> DataFrame:
    if table.stored_in != QUARANTINE:
        return rows
    conflicts = F.col("reason").eqNullSafe(QuarantineReason.CONFLICTING_DUPLICATE.value)
    if table.name == QUARANTINE:
        return rows.where(~conflicts)
    events = rows.where(conflicts).select(F.from_json("raw", "map<string, string>").alias(EVENT), "batch_id")
    return events.select(*(F.col(EVENT)[name].alias(name) for name in table.key), "*")


def _compare_frames(old: DataFrame, new: DataFrame, table: ComparedTable, parts: int) -> TableComparison:
    """Compare the rows of two frames in ``parts``, none if there are no rows. Each row is read once."""
    if not parts:
        return TableComparison()
    part = F.pmod(F.xxhash64(*(F.col(name).cast("string") for name in table.key)), F.lit(parts))
    sides = [each.withColumn(_PART, part).groupBy(_PART) for each in (old, new)]

    def compare(old: pa.Table, new: pa.Table) -> pa.Table:
        sides = [side.drop_columns([_PART]) if _PART in side.column_names else side for side in (old, new)]
        before, now = map(name_event_fields, sides)
        return pa.table({"compared": [json.dumps(asdict(compare_rows(before, now, table)))]})

    compared = sides[0].cogroup(sides[1]).applyInArrow(compare, "compared string")
    return merge_comparisons(_COMPARISON.validate_json(row.compared) for row in compared.collect())


_COLUMNS: Final = (
    "proof_id string, proved_at timestamp, lineage string, first_batch bigint, last_batch bigint, verdict string, "
    "table_name string, kind string, columns array<string>, rows bigint, explained_by array<string>, samples string"
)


def add_to_proof_table(spark: SparkSession, home: StreamHome, proof: Proof) -> str:
    """Append the result, and return the place of the table. ``kind`` is ``identical`` for the rows that are equal."""
    location, moment = uri_of(home.table(PROOF)), datetime.fromtimestamp(proof.at / 1000, UTC)
    of_proof, rows = (proof.id, moment, proof.lineage, proof.first, proof.last, str(proof.verdict)), list[Any]()
    for table in proof.tables:
        rows.append((*of_proof, table.table, "identical", [], table.identical, [], "[]"))
        for judged in table.differences:
            found, explained = judged.difference, list(judged.explained_by)
            samples = json.dumps([asdict(sample) for sample in found.samples], ensure_ascii=False)
            rows.append((*of_proof, table.table, str(found.kind), list(found.columns), found.rows, explained, samples))
    frame = spark.createDataFrame(rows, _COLUMNS)
    writer = frame.coalesce(1).write.format("delta").mode("append")
    writer.option("delta.dataSkippingNumIndexedCols", "0").save(location)  # no statistics, because samples name people
    return location
