"""Packing: a task's rows leave as one blob per key group, so that Python downstream never sees a row alone.

Runs in ``mapInArrow`` before the shuffle. Packed rows are ``(key_group int, kind string, blob binary)``, the groups by
their ``group_labels``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.wire import rows
from sessionizer.core.wire.codec import encode
from sessionizer.core.wire.group_labels import group_labels
from sessionizer.core.wire.wide import pieces
from sessionizer.spark.frozen_imports import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from sessionizer.core.wire.group_labels import Labels

PACKED = "key_group int, kind string, blob binary"
GROUP, PUNCTUATION = "key_group", "punctuation"


def packer(event_columns: list[str], key_groups: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for ``mapInArrow``: guarded rows (and punctuations) in, packed rows out."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        labels = group_labels(key_groups)
        for batch in batches:
            if batch.num_rows:
                yield from _pack(batch, event_columns, labels)
        freeze_imports(pack.__name__)

    return pack


def _pack(batch: pa.RecordBatch, event_columns: list[str], labels: Labels) -> Iterator[pa.RecordBatch]:
    refused = batch.column("reason").is_valid()
    control = batch.column(PUNCTUATION).is_valid()
    if batch.column(PUNCTUATION).null_count < batch.num_rows:
        yield _broadcast(batch.filter(control), labels)
    if batch.column("reason").null_count < batch.num_rows:
        quarantined = batch.filter(refused)
        yield _blobs(quarantined, rows.QUARANTINE, rows.QUARANTINE_COLUMNS, labels)
    if batch.column("reason").null_count + batch.column(PUNCTUATION).null_count < 2 * batch.num_rows:
        batch = batch.filter(pc.invert(pc.or_(refused, control)))
    if batch.num_rows:
        yield _blobs(batch, rows.EVENTS, event_columns, labels)


def _broadcast(punctuations: pa.RecordBatch, labels: Labels) -> pa.RecordBatch:
    """Send a punctuation to every group, because it moves a clock that they all share."""
    texts = [text.encode() for text in punctuations.column(PUNCTUATION).to_pylist()]
    return _pack_blobs(np.tile(labels, len(texts)), PUNCTUATION, [text for text in texts for _ in labels])


def _blobs(batch: pa.RecordBatch, kind: str, columns: list[str], labels: Labels) -> pa.RecordBatch:
    group = batch.column(GROUP).to_numpy(zero_copy_only=False).astype(np.uint16)
    order = np.argsort(group, kind="stable")  # 16 bits: numpy sorts by radix
    ordered = pa.Table.from_batches([_nullable(batch.select(columns))]).take(pa.array(order)).combine_chunks()
    starts = np.concatenate([[0], np.flatnonzero(np.diff(group[order])) + 1])
    ends = np.append(starts[1:], len(order))
    shares = [list(pieces(ordered.slice(start, end - start))) for start, end in zip(starts, ends, strict=True)]
    of_groups = np.repeat(labels[group[order][starts]], [len(share) for share in shares])
    return _pack_blobs(of_groups, kind, [encode(piece) for share in shares for piece in share])


def _nullable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make every column nullable, because blobs must fit together.

    Spark takes a column for nullable or not depending on the punctuations of the batch.
    """
    fields = [field.with_nullable(nullable=True) for field in batch.schema]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def _pack_blobs(groups: NDArray[np.int32], kind: str, blobs: list[bytes]) -> pa.RecordBatch:
    kinds = pa.array([kind] * len(blobs), pa.string())
    return pa.record_batch(
        [pa.array(groups), kinds, pa.array(blobs, pa.binary())],
        names=[GROUP, "kind", "blob"],
    )
