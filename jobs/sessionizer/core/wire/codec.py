"""Encoding of Arrow tables as bytes, the only format of events in the state and between stages.

A blob is one Arrow IPC stream, compressed with Zstandard, that carries its own schema. The schema's metadata of a blob
of open events hold the ``revision`` that wrote it, and the threshold and the caps that its rows were admitted with.
"""

from __future__ import annotations

import json

import pyarrow as pa

from sessionizer.core.definition.rules import Caps
from sessionizer.core.wire.rows import REVISION

# Events are mostly ids in text. At its lowest level Zstandard leaves 6 bytes where LZ4 leaves 10. It takes twice the
# time to write, 0.15 µs more for each event. The blob then goes through sockets, RocksDB and the checkpoint
# (docs/tuning.md).
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


def mark_first(table: pa.Table) -> pa.Table:
    """Remove the stamp of ``mark_continued``."""
    metadata = dict(table.schema.metadata or {})
    metadata.pop(_CONTINUES, None)
    return table.replace_schema_metadata(metadata)


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
