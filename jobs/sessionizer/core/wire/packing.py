"""Division of canonical rows into new key groups, and the packing of each group's rows into blobs of its log.

Rows are divided, as they come, into blobs of one group each (*shares*). The shares are sent to the task that packs the
group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import comes_back, decode_admissions, log_of, take_rows
from sessionizer.core.wire.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DIVIDED_BYTES: Final = 2**26
"""Bytes of rows that are divided at a time. The more bytes, the fewer shares of each group."""


class PackedLog(NamedTuple):
    """A group's log: its ``blobs``, oldest first, and the number of ``events`` in each.

    ``whole`` says whether the blobs, unpacked again, gave back each row unchanged.
    """

    blobs: list[bytes]
    events: list[int]
    whole: bool


class GroupBlob(NamedTuple):
    """Canonical rows of one new ``group`` as a ``blob``: the number of its ``events``, and of those it cannot keep."""

    group: int
    blob: bytes
    events: int
    without_key: int
    without_timeout: int


def shares(
    batches: Iterable[pa.RecordBatch], group: str, admissions: Sequence[str] | None = None
) -> Iterator[GroupBlob]:
    """Yield canonical rows as shares. The number of the new group of each row is in the column ``group``.

    ``admissions``: the texts of all rows that ``canonical.code_admissions`` made.
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.get_total_buffer_size()
        if size >= DIVIDED_BYTES:
            yield from _divide(waiting, group, admissions)
            waiting, size = [], 0
    if waiting:
        yield from _divide(waiting, group, admissions)


def pack_shares(shares_of_group: Sequence[bytes]) -> PackedLog:
    """Return the log of one group, made of all of its shares in any order."""
    rows = pa.concat_tables(map(decode, shares_of_group)).unify_dictionaries()
    blobs = [encode(table.combine_chunks()) for table in log_of(rows)]
    log = [decode(blob) for blob in blobs]
    return PackedLog(blobs, [table.num_rows for table in log], comes_back(rows, log))


def _divide(batches: list[pa.RecordBatch], group: str, admissions: Sequence[str] | None) -> Iterator[GroupBlob]:
    rows = pa.Table.from_batches(batches).combine_chunks()
    if admissions is not None:
        rows = decode_admissions(rows, admissions)
    groups = rows.column(group).to_numpy()
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    rows = rows.drop_columns([group])
    for positions in np.split(order, starts[1:]):
        yield _share(int(groups[positions[0]]), take_rows(rows, positions).combine_chunks())


def _share(group: int, rows: pa.Table) -> GroupBlob:
    without_timeout = pc.sum(pc.less(rows.column(schema.TIMEOUT), 1)).as_py() or 0
    return GroupBlob(group, encode(rows), rows.num_rows, rows.column(schema.KEY).null_count, without_timeout)
