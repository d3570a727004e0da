"""Encoding of Arrow tables as bytes, the only format of events in the state and between stages.

A blob is one Arrow IPC stream, compressed with Zstandard, that carries its own schema. The schema's metadata of a blob
of open events hold the ``revision`` that wrote it, and the threshold and the caps that its rows were admitted with.

A merge that finishes few sessions does not write the open events anew. It leaves the finished events where they are and
appends *tombstones*: a table that says which rows of the tables before it are deleted. The newest ones in a log hold
all deletions.

A column of text or bytes has offsets of 32 bits in the state, in Spark and in the tables. If a group holds more text
than they reach, its columns get offsets of 64 bits during a merge, which leaves in small pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sessionizer.core.definition.rules import Caps
from sessionizer.core.wire import schema
from sessionizer.core.wire.event_size import sizes_of_rows
from sessionizer.core.wire.rows import REVISION

# Events are mostly ids in text. At its lowest level Zstandard leaves 6 bytes where LZ4 leaves 10. It takes twice the
# time to write, 0.15 µs more for each event. The blob then goes through sockets, RocksDB and the checkpoint
# (docs/develop/tuning.md).
#
# No threads, because a task has one core: a pool of one thread costs more than it saves.
_WRITE = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1), use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_REVISION = b"revision"
_LATE_BEFORE = b"late_before_ms"
_CAPS = b"caps"
_CONTINUES = b"continues"


def encode(table: pa.Table | pa.RecordBatch) -> bytes:
    """Encode a table as one self-describing blob."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITE) as writer:
        writer.write(table)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def decode(blob: bytes) -> pa.Table:
    """Decode a blob into its table. Raises ``pyarrow.ArrowInvalid`` if the blob is damaged."""
    return open_blob(blob).read_all()


def open_blob(blob: bytes | pa.Buffer) -> pa.RecordBatchStreamReader:
    """Return a reader of the record batches of a blob. Raises ``pyarrow.ArrowInvalid`` if the blob is damaged."""
    return pa.ipc.open_stream(blob, options=_READ)


def mark_admitted(table: pa.Table, late_before_ms: int, caps: Caps | None) -> pa.Table:
    """Stamp open events with the threshold (epoch ms) and the caps of their batch, and the revision of the schema.

    ``caps`` is None only for events whose blob had none (``read_admission_caps``).
    """
    stamp = {_REVISION: REVISION, _LATE_BEFORE: str(late_before_ms)}
    if caps is not None:
        stamp[_CAPS] = json.dumps(caps)
    return table.replace_schema_metadata({name: text.encode() for name, text in stamp.items()})


def mark_continued(table: pa.Table) -> pa.Table:
    """Stamp a piece as part of the same batch as the table before it in the log."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _CONTINUES: b"1"})


def continues(table: pa.Table) -> bool:
    """Whether ``mark_continued`` stamped the table."""
    return _CONTINUES in (table.schema.metadata or {})


def read_admission_threshold(table: pa.Table) -> int:
    """Return the threshold (epoch ms) that ``mark_admitted`` stamped."""
    return int((table.schema.metadata or {})[_LATE_BEFORE])


def read_admission_caps(table: pa.Table) -> Caps | None:
    """Return the caps that ``mark_admitted`` stamped, or None if the release that wrote the blob stamped none."""
    caps = (table.schema.metadata or {}).get(_CAPS)
    return None if caps is None else Caps(*json.loads(caps))


Bools = NDArray[np.bool_]
_TOMBSTONES: Final = pa.schema([pa.field("deleted", pa.bool_())])


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
            newest = table.column(0).to_numpy()
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
    return list(mark_first_pieces(kept))


def mark_first_pieces(tables: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """Yield the tables that have rows. The first one left of a batch continues no other one."""
    begun = False
    for table in tables:
        joins = continues(table)
        begun = begun and joins
        if table.num_rows:
            if joins and not begun:
                stamps = {name: text for name, text in table.schema.metadata.items() if name != _CONTINUES}
                yield table.replace_schema_metadata(stamps)
            else:
                yield table
            begun = True


def _are_tombstones(table: pa.Table) -> bool:
    return bool(table.column_names == _TOMBSTONES.names)


WIDE_FROM_BYTES: Final = 2**30
"""A table of this size (bytes) gets offsets of 64 bits. It is half of the reach of 32 bits."""
PIECE_BYTES: Final = 2**22
"""Bytes of rows in a blob, exceeded by at most one row.

The JVM holds several whole blobs in its heap at a time: rows on their way, and one for each part that a sort spilled.
"""

_WIDE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def widen(table: pa.Table) -> pa.Table:
    """Return ``table``, with wide offsets if it is large."""
    if table.nbytes < WIDE_FROM_BYTES:
        return table
    fields = [field.with_type(_replace_leaves(field.type, _WIDE)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def is_wide(rows: pa.Schema) -> bool:
    """Whether ``widen`` gave these columns wide offsets."""
    return bool(rows.field(schema.KEY).type == pa.large_string())


def wide_type(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` with wide offsets."""
    return _replace_leaves(kind, _WIDE)


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """Yield ``table`` in order, in parts small enough for one blob each, with narrow offsets."""
    narrow = narrow_schema(table.schema)
    if table.nbytes <= PIECE_BYTES:
        yield table if table.schema.equals(narrow) else table.cast(narrow)
        return
    sizes = sizes_of_rows(table)
    before = np.cumsum(sizes) - sizes
    edges = (np.flatnonzero(np.diff(before // PIECE_BYTES)) + 1).tolist()
    for start, end in pairwise([0, *edges, table.num_rows]):
        # take, not slice, because a slice keeps offsets that may exceed the reach of narrow ones
        yield table.take(pa.array(np.arange(start, end))).cast(narrow)


def log_tables(events: pa.Table) -> list[pa.Table]:
    """Return open events as tables of a group's log, mostly one table."""
    first, *others = pieces(events)
    return [first, *map(mark_continued, others)]


def narrow_schema(wide: pa.Schema) -> pa.Schema:
    """Return the schema ``wide`` with narrow offsets, which undoes ``widen``."""
    leaves = {large: narrow for narrow, large in _WIDE.items()}
    return pa.schema([field.with_type(_replace_leaves(field.type, leaves)) for field in wide], wide.metadata)


def _replace_leaves(kind: pa.DataType, leaves: Mapping[pa.DataType, pa.DataType]) -> pa.DataType:
    """Return ``kind`` with other types of text and bytes at every depth."""
    if isinstance(kind, pa.ListType):
        return pa.list_(kind.value_field.with_type(_replace_leaves(kind.value_type, leaves)))
    if isinstance(kind, pa.MapType):
        return pa.map_(_replace_leaves(kind.key_type, leaves), _replace_leaves(kind.item_type, leaves))
    if isinstance(kind, pa.StructType):
        return pa.struct([field.with_type(_replace_leaves(field.type, leaves)) for field in kind])
    return leaves.get(kind, kind)
