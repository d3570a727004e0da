"""Tombstones: a table in a group's log that says which rows of the tables before it are deleted.

A merge that finishes few sessions does not write the open events anew. It leaves the finished events where they are and
appends tombstones. The newest tombstones in a log hold all deletions. ``decode_log`` returns the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sessionizer.core.wire.codec import continues, decode, mark_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Bools = NDArray[np.bool_]

_DELETED: Final = "deleted"
_TOMBSTONES: Final = pa.schema([pa.field(_DELETED, pa.bool_())])


class StoredLog(NamedTuple):
    """A log as it is stored: its ``tables`` of events, oldest first, and for each row of them whether it is deleted."""

    tables: list[pa.Table]
    deleted: Bools


def tombstones(deleted: Bools) -> pa.Table:
    """Return the table to append to a log whose rows, in order, are ``deleted`` or not."""
    return pa.table([pa.array(deleted)], schema=_TOMBSTONES)


def split_log(log: Iterable[pa.Table]) -> StoredLog:
    """Split the decoded blobs of a log, oldest first, into events and deletions."""
    tables: list[pa.Table] = []
    newest: Bools = np.empty(0, np.bool_)
    for table in log:
        if _are_tombstones(table):
            newest = table.column(_DELETED).to_numpy()
        else:
            tables.append(table)
    deleted = np.zeros(sum(table.num_rows for table in tables), np.bool_)
    deleted[: len(newest)] = newest
    return StoredLog(tables, deleted)


def find_appended_tables(log: Sequence[pa.Table]) -> Sequence[pa.Table]:
    """Return the tables of a log after its newest tombstones, or all of them if it has none."""
    before = max((number for number, table in enumerate(log, start=1) if _are_tombstones(table)), default=0)
    return log[before:]


def decode_log(blobs: Iterable[bytes]) -> list[pa.Table]:
    """Decode the blobs of a log, oldest first, and drop the deleted events."""
    return drop_deleted(map(decode, blobs))


def drop_deleted(log: Iterable[pa.Table]) -> list[pa.Table]:
    """Return the tables of a log without deleted rows. A table whose rows are all deleted is left out."""
    stored = split_log(log)
    if not stored.deleted.any():
        return stored.tables
    ends = np.cumsum([table.num_rows for table in stored.tables])
    kept = [
        table.filter(pa.array(~deleted)) if deleted.any() else table
        for table, deleted in zip(stored.tables, np.split(stored.deleted, ends[:-1]), strict=True)
    ]
    return list(_first_pieces_marked(kept))


def _first_pieces_marked(tables: Sequence[pa.Table]) -> Iterable[pa.Table]:
    """Yield the tables that have rows. The first one left of a batch continues no other one."""
    begun = False
    for table in tables:
        joins = continues(table)
        begun = begun and joins
        if table.num_rows:
            yield mark_first(table) if joins and not begun else table
            begun = True


def _are_tombstones(table: pa.Table) -> bool:
    return bool(table.column_names == _TOMBSTONES.names)
