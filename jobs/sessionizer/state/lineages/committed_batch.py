"""Stream after a committed batch, the content of a savepoint: read from files, also while the stream runs.

Also a batch that a lineage still keeps, of drained and earlier lineages: the place of its state and the means to read
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sessionizer.checkpoint.files import SeenFile, read_seen_files
from sessionizer.checkpoint.log_entries import (
    EVENTS,
    list_committed_batches,
    next_watermark,
    proof_of_batch,
    read_last_commit,
    read_planned_batch,
)
from sessionizer.errors import BatchOutrun, DamagedFile, NothingToSave, NothingToShow, StreamDrained
from sessionizer.home.control_store import Store
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import DRAINED_FILE, active_lineage, require_lineage
from sessionizer.lineage.fingerprint import (
    CHECKPOINT_FILE,
    CheckpointRecord,
    require_checkpoint,
    require_readable_lineage,
    require_same_engine,
)
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, KeptTypes
from sessionizer.stream_spec.decisions import Document

FILES: Final = "files"
"""The format of a source of files."""


@dataclass(frozen=True, slots=True)
class Position(JsonRecord):
    """Position of the source of events: ``offset`` as Spark writes it, None if nothing was read yet."""

    format: str
    offset: Any


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A committed batch of a lineage, and the records to resume from it. ``proof``: Spark's log entries of the batch.

    ``watermark_ms``: the watermark of the next batch. Times are epoch ms.
    """

    lineage: str
    batch_id: int
    batch_at: Moment
    watermark_ms: int
    position: Position
    seen_files: tuple[SeenFile, ...]
    settings: Mapping[str, str]
    spec: Document
    kept: KeptTypes
    record: CheckpointRecord
    proof: str


def read_committed_batch(home: StreamHome, batch_id: int | None = None, *, to_upgrade: bool = False) -> CommittedBatch:
    """Read the stream of ``home`` as it is after ``batch_id``, by default after the newest batch that is over.

    ``to_upgrade``: also if another line of Spark or Delta made its checkpoint, or an earlier release its state. Raises
    NothingToSave, StreamDrained, UnreadableLineage, EngineChanged, DamagedFile, DataAway if the checkpoint is gone, and
    BatchOutrun if Spark removes a file of the batch meanwhile.
    """
    lineage = require_lineage(home)
    require_readable_lineage(home, lineage, to_upgrade=to_upgrade)
    if not to_upgrade:
        require_same_engine(home, lineage)
    drain = DRAINED_FILE.of(home, lineage).require()
    if drain is not None:
        raise StreamDrained(home.name, lineage, drain.batch_id, drain.moment)
    require_checkpoint(home, lineage)
    while True:
        spec, kept = SPEC_FILE.of(home, lineage).require(), TYPES_FILE.of(home, lineage).require()
        chosen = _chosen(home, lineage, batch_id)
        # a driver writes its spec before its first batch: unchanged, it is the spec of this batch
        if spec == SPEC_FILE.of(home, lineage).require() and kept == TYPES_FILE.of(home, lineage).require():
            break
    record = CHECKPOINT_FILE.of(home, lineage).require()
    if spec is None or kept is None or record is None:
        raise DamagedFile(uri_of(home.lineage(lineage).root), "it lacks spec.json or types.json")
    facts = _facts(home, lineage, chosen, str(spec.document["source"]["format"]))
    return CommittedBatch(lineage=lineage, batch_id=chosen, spec=spec.document, kept=kept, record=record, **facts)


def require_unchanged(home: StreamHome, committed: CommittedBatch) -> None:
    """Raise BatchOutrun if the batch is no longer kept or was replaced."""
    proof = _require_batch(
        home, committed.batch_id, lambda: proof_of_batch(home.checkpoint(committed.lineage), committed.batch_id)
    )
    if proof != committed.proof:
        raise BatchOutrun(home.name, committed.batch_id, "another batch took its place")


def _chosen(home: StreamHome, lineage: str, batch_id: int | None) -> int:
    checkpoint = home.checkpoint(lineage)
    newest = read_last_commit(checkpoint)
    if newest is None:
        raise NothingToSave(home.name, f"no batch of its lineage {lineage} is over")
    if batch_id is not None and batch_id not in list_committed_batches(checkpoint):
        raise NothingToSave(home.name, f"batch {batch_id} is not among those kept, of which the newest is {newest}")
    return newest if batch_id is None else batch_id


def _facts(home: StreamHome, lineage: str, batch_id: int, source: str) -> dict[str, Any]:
    checkpoint = home.checkpoint(lineage)

    def facts() -> dict[str, Any]:
        planned = read_planned_batch(checkpoint, batch_id)
        return {
            "proof": proof_of_batch(checkpoint, batch_id),
            "batch_at": planned.at_ms,
            "watermark_ms": next_watermark(checkpoint, batch_id),
            "position": Position(source, planned.ends.get(EVENTS)),
            "seen_files": tuple(read_seen_files(checkpoint, batch_id)) if source == FILES else (),
            "settings": dict(planned.settings),
        }

    found: dict[str, Any] = _require_batch(home, batch_id, facts)
    return found


def _require_batch(home: StreamHome, batch_id: int, read: Callable[[], Any]) -> Any:  # noqa: ANN401  what is read
    try:
        return read()
    except FileNotFoundError as error:
        raise BatchOutrun(home.name, batch_id, f"{error.filename or error} is gone") from error


@dataclass(frozen=True, slots=True)
class RetainedBatch:
    """The committed ``batch_id`` of ``lineage``, and the records to read it by.

    ``proof``: Spark's log entries of the batch.

    ``at_ms``: its clock. ``watermark_ms``: the watermark of the next batch. Both epoch ms.
    """

    stream: str
    lineage: str
    checkpoint: DataPath
    batch_id: int
    at_ms: int
    watermark_ms: int
    spec: Document
    kept: KeptTypes
    proof: str

    def require_unchanged(self) -> None:
        """Raise BatchOutrun if the batch is no longer kept or was replaced.

        A caller asks after it has read the state.
        """
        if _proof(self.stream, self.checkpoint, self.batch_id) != self.proof:
            raise BatchOutrun(self.stream, self.batch_id, "another batch took its place")


def find_retained_batch(home: StreamHome, batch_id: int | None = None, lineage: str | None = None) -> RetainedBatch:
    """Return ``batch_id`` of ``lineage``. Defaults: the newest batch that is over, of the active lineage.

    Raises NothingToShow, UnreadableLineage, DamagedFile, InvalidSpec, DataAway if the active lineage's checkpoint is
    gone, and BatchOutrun if Spark removes the batch meanwhile.
    """
    active = active_lineage(home)
    chosen = lineage or active
    if chosen is None:
        raise NothingToShow(home.name, "it never ran")
    if not Store(home.lineage(chosen).records).exists():
        raise NothingToShow(home.name, f"it has no lineage {chosen}")
    require_readable_lineage(home, chosen)
    if chosen == active:  # a compaction removes those of earlier lineages
        require_checkpoint(home, chosen)
    checkpoint = home.checkpoint(chosen)
    batch = _choose_kept(home.name, chosen, list_committed_batches(checkpoint), batch_id)
    spec, kept = SPEC_FILE.of(home, chosen).require(), TYPES_FILE.of(home, chosen).require()
    if spec is None or kept is None:
        raise DamagedFile(uri_of(home.lineage(chosen).records), "it lacks spec.json or types.json")
    try:
        proof = _proof(home.name, checkpoint, batch)
    except BatchOutrun as error:
        if chosen == active:
            raise
        # no driver has removed it meanwhile, so a second try ends the same
        raise NothingToShow(home.name, f"files of its lineage {chosen} are gone: {error.cause}") from error
    planned, watermark = read_planned_batch(checkpoint, batch), next_watermark(checkpoint, batch)
    return RetainedBatch(
        home.name, chosen, checkpoint, batch, planned.at_ms, watermark, spec.document, kept, proof
    )  # fmt: skip


def _choose_kept(stream: str, lineage: str, kept: set[int], wanted: int | None) -> int:
    if not kept:
        raise NothingToShow(stream, f"its lineage {lineage} has no committed batch")
    if wanted is not None and wanted not in kept:
        known = f"Its lineage {lineage} keeps {min(kept)} to {max(kept)}"
        raise NothingToShow(stream, f"batch {wanted} is not there. {known}")
    return max(kept) if wanted is None else wanted


def _proof(stream: str, checkpoint: DataPath, batch_id: int) -> str:
    try:
        return proof_of_batch(checkpoint, batch_id)
    except FileNotFoundError as error:
        raise BatchOutrun(stream, batch_id, f"{error.filename or error} is gone") from error
