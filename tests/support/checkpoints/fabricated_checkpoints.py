"""A checkpoint in memory, its files of the form that Spark gives them, with nothing in the state that makes sense."""

from __future__ import annotations

import json
import struct
import uuid
from typing import TYPE_CHECKING, Any, Final

import google_crc32c
from xxhash import xxh32_intdigest

from sessionizer.inspection.integrity import LZ4_MAGIC
from support.faults.checkpoint_damage import Held

if TYPE_CHECKING:
    from collections.abc import Mapping

QUERY_ID: Final = "7f1af382-90ac-43aa-a012-645e1e5d3619"
FIRST_MS: Final = 1_795_441_000_000
WATERMARK_MS: Final = 1_767_225_600_000
_SCHEMA: Final = '{"type":"struct","fields":[]}'


def fabricated(batches: int, *, format: int = 2, partitions: int = 2, ends: Any = None) -> Held:  # noqa: A002
    """Of so many committed batches of an aggregation. ``ends``: the end of a source in batch n, if not of files."""
    contents: dict[str, bytes] = {
        "metadata": json.dumps({"id": QUERY_ID}).encode(),
        "state/0/_metadata/metadata": _described(partitions),
        "state/0/0/_metadata/schema": _schema(),
    }
    for batch in range(batches):
        end = {"logOffset": batch} if ends is None else ends(batch)
        ids = [[str(uuid.uuid5(uuid.NAMESPACE_OID, f"{batch}/{partition}"))] for partition in range(partitions)]
        contents[f"offsets/{batch}"] = _lines("v1", _about(batch, format), end)
        told: dict[str, Any] = {"nextBatchWatermarkMs": WATERMARK_MS + 1000 * (batch + 1)}
        contents[f"commits/{batch}"] = _lines(
            f"v{format}", {**told, "stateUniqueIds": {"0": ids}} if format == 2 else told
        )
        if ends is None:
            entry = {"path": f"file:///in/{batch}.json", "timestamp": FIRST_MS, "batchId": batch}
            contents[f"sources/0/{batch}"] = _lines("v1", entry)
        for partition, (name,) in enumerate(ids):
            own = f"{batch + 1}_{name}.changelog" if format == 2 else f"{batch + 1}.delta"
            contents |= _changes(f"state/0/{partition}/{own}", checked=format == 2)
    return Held(contents)


def _lines(version: str, *values: Any) -> bytes:
    return "\n".join([version, *(json.dumps(value) for value in values)]).encode()


def _about(batch: int, format: int) -> Mapping[str, Any]:  # noqa: A002
    provider = "RocksDBStateStoreProvider" if format == 2 else "HDFSBackedStateStoreProvider"
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": f"org.apache.spark.sql.execution.streaming.state.{provider}",
        "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    }
    clock = {"batchWatermarkMs": WATERMARK_MS + 1000 * batch, "batchTimestampMs": FIRST_MS + 1000 * batch}
    return {**clock, "conf": settings}


def _described(partitions: int) -> bytes:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}
    operator = {"operatorId": 0, "operatorName": "stateStoreSave"}
    return _lines("v1", {"operatorInfo": operator, "stateStoreInfo": [store]})


def _schema() -> bytes:
    piece = struct.pack(">IH", 1, len(_SCHEMA)) + _SCHEMA.encode()
    return b"\x00\x02v2" + piece + piece


def _changes(name: str, *, checked: bool) -> dict[str, bytes]:
    plain = f"what {name} changes".encode()
    checksum = xxh32_intdigest(plain, 0x9747B28C) & 0x0FFFFFFF
    stream = b"".join(
        [
            struct.pack("<8sBIII", LZ4_MAGIC, 0x15, len(plain), len(plain), checksum),
            plain,
            struct.pack("<8sBIII", LZ4_MAGIC, 0x15, 0, 0, 0),
        ]
    )
    if not checked:
        return {name: stream}
    value = struct.unpack(">i", struct.pack(">I", google_crc32c.value(stream)))[0]
    told = {"algorithm": "CRC32C", "value": value, "mainFileSize": len(stream)}
    return {name: stream, f"{name}.crc": json.dumps(told).encode()}
