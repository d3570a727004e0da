"""A batch that a lineage still keeps: the place of its state and the means to read it.

Also of drained and earlier lineages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.checkpoint.batch_logs import list_committed_batches, next_watermark, proof_of_batch, read_planned_batch
from sessionizer.errors import BatchOutrun, DamagedFile, NothingToShow
from sessionizer.home.control_store import Store
from sessionizer.home.roots import uri_of
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.checkpoint_record import require_checkpoint, require_readable_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE

if TYPE_CHECKING:
    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.kept_spec import KeptTypes
    from sessionizer.stream_spec.decisions import Document


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
    batch = _chosen(home.name, chosen, list_committed_batches(checkpoint), batch_id)
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


def _chosen(stream: str, lineage: str, kept: set[int], wanted: int | None) -> int:
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
