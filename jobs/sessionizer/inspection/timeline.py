"""Batches that a checkpoint keeps, one after the other: their times, sources' ends, and bytes written to the state."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sessionizer.checkpoint.log_entries import source_kind
from sessionizer.counts import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessionizer.checkpoint.files import Files
    from sessionizer.checkpoint.log_entries import CommitEntry, OffsetEntry
    from sessionizer.checkpoint.state_files import StorePlace, VersionFile


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """Batch with its clock and watermark (epoch ms), and the watermark of the next one, None if it is not over.

    ``read``: by source, the amount that it read, in the unit of that source. None if its offsets do not tell.
    ``change_bytes`` were written to the state, ``whole_bytes`` as snapshots of it.
    """

    batch_id: int
    at_ms: int
    watermark_ms: int
    next_watermark_ms: int | None
    read: Mapping[str, str | None]
    change_bytes: int
    whole_bytes: int

    @property
    def is_over(self) -> bool:
        """Whether it was committed."""
        return self.next_watermark_ms is not None


def list_kept_batches(
    offsets: Mapping[int, OffsetEntry],
    commits: Mapping[int, CommitEntry],
    stores: Mapping[StorePlace, Sequence[VersionFile]],
    files: Files,
) -> list[KeptBatch]:
    """Return every batch with readable offsets, the oldest first."""
    sizes: dict[tuple[int, bool], int] = {}
    for there in stores.values():
        for file in there:
            key = (file.version - 1, file.is_whole)
            sizes[key] = sizes.get(key, 0) + files.sizes.get(file.name, 0)
    entries = [None, *(offsets[batch] for batch in sorted(offsets))]
    return [
        KeptBatch(
            batch_id=now.batch_id,
            at_ms=now.at_ms,
            watermark_ms=now.watermark_ms,
            next_watermark_ms=commits[now.batch_id].next_watermark_ms if now.batch_id in commits else None,
            read=_read_of(before, now),
            change_bytes=sizes.get((now.batch_id, False), 0),
            whole_bytes=sizes.get((now.batch_id, True), 0),
        )
        for before, now in pairwise(entries)
        if now is not None
    ]


def _read_of(before: OffsetEntry | None, now: OffsetEntry) -> dict[str, str | None]:
    if now.batch_id and (before is None or before.batch_id != now.batch_id - 1):
        return dict.fromkeys(now.ends)
    return {name: advance(before.ends.get(name) if before else None, end) for name, end in now.ends.items()}


def advance(before: Any, now: Any) -> str | None:  # noqa: ANN401  JSON
    """Return how far a source came from one end to another: parts of its list for files, records for Kafka."""
    kind = source_kind(now)
    if now == before:
        return "nothing"
    if kind == "files":
        return "files"
    if kind == "Kafka" and before is not None:
        return count_text(_records(now) - _records(before), "record")
    if kind == "Delta":
        return f"up to version {now.get('reservoirVersion')}"
    return None


def _records(end: Mapping[str, Mapping[str, int]]) -> int:
    """Sum all offsets of all partitions."""
    return sum(int(offset) for topic in end.values() for offset in topic.values())
