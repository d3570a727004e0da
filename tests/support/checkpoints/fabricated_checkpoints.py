"""The files of a checkpoint, each damaged in every way: in memory, and on disk."""

import json
import shutil
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import google_crc32c
from xxhash import xxh32_intdigest

from sessionizer.checkpoint.files import Files
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS, SEEN_FILES, TIMEOUTS, SavepointHome, StreamHome
from sessionizer.inspection.checkpoint_read import LZ4_MAGIC
from sessionizer.lineage.fingerprint import Fingerprint
from sessionizer.state.lineages.committed_batch import Position
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin
from sessionizer.state.savepoints.listing import UseMark, write_data_record
from sessionizer.state.savepoints.manifest import Counts, Manifest, SavepointKind, SinkTable, write_manifest
from sessionizer.state.savepoints.verification import data_files
from support.places import opened


class Way(StrEnum):
    CUT = "cut"
    EMPTIED = "emptied"
    FLIPPED = "flipped"
    REMOVED = "removed"

    def of(self, content: bytes) -> bytes | None:
        """What is left of it; None for nothing, not even the name."""
        middle = len(content) // 2
        if self is Way.CUT:
            return content[:middle]
        if self is Way.FLIPPED:
            return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]
        return b"" if self is Way.EMPTIED else None


@dataclass(frozen=True, slots=True)
class Held:
    contents: Mapping[str, bytes]

    @classmethod
    def of(cls, folder: Path) -> Self:
        files = (entry for entry in sorted(folder.rglob("*")) if entry.is_file())
        return cls({entry.relative_to(folder).as_posix(): entry.read_bytes() for entry in files})

    @property
    def names(self) -> list[str]:
        """Of the files that Spark writes for itself: Hadoop's checksums are hidden."""
        return [name for name in self.contents if not name.rpartition("/")[2].startswith(".")]

    def without_hidden(self) -> Self:
        """As a file system holds it for which Hadoop keeps no checksums."""
        return replace(self, contents={name: self.contents[name] for name in self.names})

    def damaged(self, name: str, way: Way) -> Self:
        left = way.of(self.contents[name])
        others = {other: content for other, content in self.contents.items() if other != name}
        return replace(self, contents=others if left is None else {**others, name: left})

    def files(self) -> Files:
        def read(name: str) -> bytes:
            if name not in self.contents:
                raise FileNotFoundError(name)
            return self.contents[name]

        return Files("memory", {name: len(content) for name, content in self.contents.items()}, read)

    def put(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in self.contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


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


SPEC = {"name": "clicks", "key_groups": 4, "rules": {"gap_timeout": "30 seconds"}, "description": "x"}
NOBODY = 2**22 + 1
"""A process id that no Linux gives out."""


def manifest_of(savepoint: str, batch_id: int = 7, made_at: int = 1_000) -> Manifest:
    return Manifest(
        id=savepoint,
        kind=SavepointKind.CANONICAL,
        stream="clicks",
        owner="clicks@1f2e3d4c5b6a7988",
        lineage="20261121T105501-3fa9c2",
        batch_id=batch_id,
        batch_at=900,
        made_at=made_at,
        live=True,
        checkpoint_format=1,
        revision="0001",
        spec=SPEC,
        time_mode="event_time",
        payload_types={"page": ["string"]},
        position=Position("files", {"logOffset": 3}),
        watermark_ms=850,
        sinks=(SinkTable("sessions", "/tables/sessions", 12), SinkTable("quarantine", "/tables/quarantine", None)),
        counts=Counts(events=9, keys=4, groups=2, sessions=5),
        earliest_due_ms=990,
        fingerprint=Fingerprint("ab", {"spark": "4.2.0"}, {"spark.sql.shuffle.partitions": "2"}),
    )


def fabricate(folder: DataPath, savepoint: str, made_at: int = 1_000, why: str = "tests") -> SavepointHome:
    """A complete savepoint with a file of each kind."""
    home = begin(folder, savepoint, why=why)
    for part in (GROUP_LOGS, OPEN_EVENTS, TIMEOUTS, SEEN_FILES):
        log = home.part(part) / "_delta_log"
        opened(log).mkdir(parents=True)
        opened(log / f"{0:020d}.json").write_text('{"add": "part-0.parquet"}')
        opened(home.part(part) / "part-0.parquet").write_bytes(part.encode() * 50)
    write_manifest(home, replace(manifest_of(savepoint, made_at=made_at), files=tuple(data_files(home))))
    return home


def begin(folder: DataPath, savepoint: str, *, by_the_dead: bool = False, why: str = "tests") -> SavepointHome:
    """A savepoint that this process, or one that was killed, has begun to make."""
    home = SavepointHome.of(folder, savepoint)
    ours = UseMark.now(why)
    write_data_record(home.begun, replace(ours, pid=NOBODY) if by_the_dead else ours)
    return home


def read_by_the_dead(home: SavepointHome) -> None:
    write_data_record(home.reader("dead"), replace(UseMark.now("tests"), pid=NOBODY))


def read_elsewhere(home: SavepointHome, since: int | None = None) -> None:
    engaged = replace(UseMark.now("tests"), host="elsewhere", at=epoch_ms() if since is None else since)
    write_data_record(home.reader("far"), engaged)


def note_origin(home: StreamHome, lineage: str, savepoint: str) -> None:
    home.lineage(lineage).records.mkdir(parents=True)
    ORIGIN_FILE.of(home, lineage).write(Origin("restore", 0, "20261121T105500-000000", 7, savepoint))
