"""Arrow tables to bytes and back: the only format in which events wait in state or travel between stages.

A blob is one Arrow IPC stream, Zstandard inside, that carries its own schema; a blob of open events carries in the
schema's metadata the ``revision`` it was written by, the threshold its rows were admitted after and the caps they were
admitted with.
"""

from __future__ import annotations

import json

import pyarrow as pa

from sessionizer.core.definition.rules import Caps
from sessionizer.core.wire.rows import REVISION

# Events are mostly text of ids. At the lowest level Zstandard leaves 6 bytes where LZ4 leaves 10, for twice the time to
# write, 0.15 µs an event more; what is left goes through sockets, RocksDB and the checkpoint (docs/adr/0014).
#
# No threads: a task has a core, not the machine, and to hand each buffer to a pool of one costs more than it gives.
_WRITE = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1), use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_REVISION = b"revision"
_LATE_BEFORE = b"late_before_ms"
_CAPS = b"caps"
_CONTINUES = b"continues"


def encode(table: pa.Table | pa.RecordBatch) -> bytes:
    """One self-describing blob."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITE) as writer:
        writer.write(table)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def decode(blob: bytes) -> pa.Table:
    """The table a blob was made of. Raises ``pyarrow.ArrowInvalid`` on a damaged blob."""
    return opened(blob).read_all()


def opened(blob: bytes | pa.Buffer) -> pa.RecordBatchStreamReader:
    """The record batches of a blob, as they are asked for."""
    return pa.ipc.open_stream(blob, options=_READ)


def mark_admitted(table: pa.Table, late_before_ms: int, caps: Caps | None) -> pa.Table:
    """Stamp open events with the threshold (epoch ms) and the caps of their batch, and the revision of the schema.

    ``caps``: None only for those that came back without (``admitted_with``).
    """
    stamp = {_REVISION: REVISION, _LATE_BEFORE: str(late_before_ms)}
    if caps is not None:
        stamp[_CAPS] = json.dumps(caps)
    return table.replace_schema_metadata({name: text.encode() for name, text in stamp.items()})


def mark_continued(table: pa.Table) -> pa.Table:
    """Say of a piece that it is of the same batch as the table before it in the log."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _CONTINUES: b"1"})


def continues(table: pa.Table) -> bool:
    """Whether ``mark_continued`` was said of the table."""
    return _CONTINUES in (table.schema.metadata or {})


def admitted_after(table: pa.Table) -> int:
    """The threshold (epoch ms) that ``mark_admitted`` stamped."""
    return int((table.schema.metadata or {})[_LATE_BEFORE])


def admitted_with(table: pa.Table) -> Caps | None:
    """The caps that ``mark_admitted`` stamped; None on a blob of a release that did not."""
    caps = (table.schema.metadata or {}).get(_CAPS)
    return None if caps is None else Caps(*json.loads(caps))
