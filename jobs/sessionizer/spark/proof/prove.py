"""Proof that a release and a spec give the sessions that the stream's tables hold.

``prove_and_keep`` is the entry for ``sessionizer prove`` and for an upgrade.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import make_data_folder
from sessionizer.home.names import mint_id
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.fingerprint import JAVA, SPARK, present_fingerprint, read_fingerprint
from sessionizer.spark.ingest.guard import require_readable_state
from sessionizer.spark.proof.fork import Fork, fork_lineage, fork_with_migrations, scratch_folder
from sessionizer.spark.proof.replay import Recording, Replayed, examine_replay, read_recording, replay
from sessionizer.spark.proof.tables import (
    Rows,
    add_to_proof_table,
    compare_tables,
    noted_rows,
    recorded_rows,
    replayed_rows,
)
from sessionizer.spark.session import jvm_version
from sessionizer.spark.sinks.examine import Examined
from sessionizer.state.proof.batches import BATCHES
from sessionizer.state.proof.comparison import TABLES, TableComparison
from sessionizer.state.proof.page import keep_page
from sessionizer.state.proof.result import Proof, TableProof, judge_table, release_differences
from sessionizer.stream_spec.document.stream import StreamSpec

_OLD_SPEC: Final = "by_recorded_spec"


@dataclass(frozen=True, slots=True)
class KeptProof:
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
    ``kept.proof.require(accepted)`` raises ReplayDiffers unless all unexplained rows are accepted by name. The proof
    replays batches of the lineage that is active, changes nothing of the stream, and may be repeated. ``proof`` has
    the numbers of ``identical``, ``explained`` and ``unexplained`` rows. Raises the errors of ``prove_by_replay``, and
    OSError.
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
        examined = examine_replay(spark, home, recording)
        fork = _fork(spark, home, recording, folder, examined)
        say(f"replaying batches {recording.batches.first} to {recording.batches.last} of lineage {recording.lineage}")
        replayed = replay(spark, home, recording, fork, examined, say)
        tables, notes = _judge(spark, home, recording, fork, replayed, say)
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
    spark: SparkSession,
    home: StreamHome,
    recording: Recording,
    fork: Fork,
    replayed: Replayed,
    say: Callable[[str], None],
) -> tuple[tuple[TableProof, ...], list[str]]:
    """Compare the old rows with the new ones, and tell the doing of the release from that of a changed spec."""
    noted = noted_rows(home, recording, replayed.batches)
    old = recorded_rows(spark, home, recording, replayed.batches)
    new = replayed_rows(spark, recording, fork, replayed.batches)
    compared, notes = compare_tables(old, new, noted)
    of_release, of_spec = compared, {name: TableComparison() for name in compared}
    if recording.changes and replayed.died is None and any(each.differences for each in compared.values()):
        say("rows differ, and the spec changed: the batches are replayed by the recorded spec, too")
        base = _replay_by_old_spec(spark, home, recording, replayed, fork.folder / _OLD_SPEC, say)
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
    spark: SparkSession,
    home: StreamHome,
    recording: Recording,
    replayed: Replayed,
    folder: DataPath,
    say: Callable[[str], None],
) -> Rows | str:
    """Replay by this code and the recorded spec. What differs from the old rows then is the doing of the code.

    Returns the rows of the same batches, or a note if this code cannot run the recorded spec. Raises as
    ``prove_by_replay``.
    """
    make_data_folder(folder)
    by_old = recording.use_recorded_spec()
    try:
        examined = examine_replay(spark, home, by_old)
        fork = _fork(spark, home, by_old, folder, examined)
    except InvalidSpec as error:
        return f"no difference is explained, because this release cannot run the recorded spec: {error}"
    died = replay(spark, home, by_old, fork, examined, say).died
    if died is not None:
        return f"no difference is explained, because batch {died.batch_id} failed by the recorded spec: {died.cause}"
    return replayed_rows(spark, by_old, fork, replayed.batches)


def _fork(spark: SparkSession, home: StreamHome, recording: Recording, folder: DataPath, examined: Examined) -> Fork:
    """Copy the lineage as files, or seed a copy if migrations wait. Raises InvalidSpec if the spec does not fit it."""
    if recording.waiting:
        return fork_with_migrations(spark, home, recording, folder, examined)
    require_readable_state(home, recording.lineage, recording.spec, examined.guarded.payload)
    return fork_lineage(home, recording, folder)
