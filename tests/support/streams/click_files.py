"""Realistic clicks in files whose every row is known: what it tells, and what is wrong with it."""

import json
import os
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from sessionizer_demo.feed.generator import Row, generate_within
from sessionizer_demo.feed.pacing import ticks
from sessionizer_demo.feed.rows.faults import DEFAULT_FAULT_RATES
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.scenario import Bounds, Scenario
from sessionizer_demo.feed.sinks.folder_sink import FolderSink
from sessionizer_demo.feed.traffic.day_curve import DayCurve
from sessionizer_demo.feed.traffic.events import ClickEvent

ClickFiles: TypeAlias = "Mapping[str, tuple[Row, ...]]"
"""The rows of each file, by its name."""

START_MS = 1_750_000_000_000
# so many faults that every file has some that the guard refuses, some that are late and some that come twice
FAULTS = {kind: 4 * share for kind, share in DEFAULT_FAULT_RATES.items()} | {RowKind.TRUNCATED: 0.02}
RATE: Final = 40.0
FILE_SECONDS: Final = 10
APART_S: Final = 0.02
"""Between the times of two files: more than a tick of any kernel's clock."""


def known_rows(count: int) -> list[Row]:
    return list(generate_within(_scenario(RATE, count / RATE), Bounds(events=count)))


def write_click_files(folder: Path, files: int, *, rate: float = RATE) -> ClickFiles:
    """``files`` files of ``FILE_SECONDS`` of simulated time each, as old as the order of their names says.

    Spark reads the oldest first, and those of one millisecond in any order.
    """
    scenario, hidden, begun = _scenario(rate, files * FILE_SECONDS), folder / ".unread", time.time() - files * APART_S
    sink = FolderSink(hidden, "clicks", ".json")
    rows = generate_within(scenario, Bounds(duration_s=files * FILE_SECONDS))
    written: dict[str, tuple[Row, ...]] = {}
    for tick in ticks(rows, scenario.start_ms, FILE_SECONDS * 1000):
        sink.write(tick)
        name = f"clicks-{tick.number:08d}.json"
        os.utime(hidden / name, (begun + tick.number * APART_S,) * 2)
        (hidden / name).rename(folder / name)
        written[name] = tick.rows
    hidden.rmdir()
    return written


def write_aside(root: Path, files: int, *, rate: float = RATE) -> tuple[ClickFiles, list[Path]]:
    """Write files to ``clicks`` in the folder, from where a test brings them: the rows of each, and their paths."""
    rows = write_click_files(root / "clicks", files, rate=rate)
    return rows, [root / "clicks" / name for name in sorted(rows)]


def _scenario(rate: float, seconds: float) -> Scenario:
    return Scenario(
        start_ms=START_MS,
        rate=rate,
        watermark_delay_ms=10_000,
        faults=FAULTS,
        day=DayCurve(day_seconds=seconds, depth=0.3),
    )


FIRST_EVENT_MS = 1_700_000_000_000
USERS = 100_000


def many_clicks_spec(**options: str) -> dict[str, Any]:
    """A stream of what ``write_many_clicks`` writes; all of it may come in one batch, unless ``options`` say less."""
    return {
        "source": {
            "format": "files",
            "path": "feed",
            "encoding": "parquet",
            "columns": "event_id string, user_id string, ts bigint",
            "options": options or {"maxFilesPerTrigger": 1_000},
        },
        "mapping": {"key": "user_id", "event_time": "timestamp_millis(ts)", "event_id": "event_id"},
        "rules": {"watermark_delay": "10 seconds", "gap_timeout": "30 seconds", "emit_every": "5 seconds"},
        "key_groups": 4,
        "trigger_interval": "1 second",
    }


def write_many_clicks(folder: Path, events: int, files: int = 1) -> None:
    users = np.random.default_rng(0)
    for number in range(files):
        ids = np.arange(number * events // files, (number + 1) * events // files)
        table = pa.table(
            {
                "event_id": pa.array(ids).cast(pa.string()),
                "user_id": pa.array(users.integers(0, USERS, len(ids))).cast(pa.string()),
                "ts": FIRST_EVENT_MS + ids * 10,
            }
        )
        pq.write_table(table, folder / f"part-{number:04d}.parquet")


CLICK: Final = "shop.Click"
FIELDS: Final = {
    "event_id": "string", "user_id": "string", "client": "string", "ts": "long", "type": "string", "page": "string",
    "amount": "double", "device": "string", "timeout_s": "int",
}  # fmt: skip
WITHOUT_DEVICE: Final = tuple(name for name in FIELDS if name != "device")
"""The fields of an older version of the schema."""


def avro_schema(fields: Sequence[str] = tuple(FIELDS), **more: str) -> str:
    """The schema of a click. Each field may be null, and is so where a value does not have it."""
    kinds = {name: FIELDS[name] for name in fields} | more
    columns = [{"name": name, "type": ["null", kind], "default": None} for name, kind in kinds.items()]
    return json.dumps({"type": "record", "name": "Click", "namespace": "shop", "fields": columns})


def avro_value(number: int, click: ClickEvent, fields: Sequence[str] = tuple(FIELDS), **more: int) -> bytes:
    """The click in Avro, under the id ``number`` of a schema of ``fields`` and ``more`` fields of type int."""
    values = [(FIELDS[name], getattr(click, name)) for name in fields] + [("int", each) for each in more.values()]
    header: bytes = struct.pack(">bI", 0, number)
    return header + b"".join(_avro(kind, value) for kind, value in values)


def _avro(kind: str, value: Any) -> bytes:
    if value is None:
        return _zigzag(0)
    if kind == "string":
        text: bytes = value.encode()
        return _zigzag(1) + _zigzag(len(text)) + text
    return _zigzag(1) + (struct.pack("<d", value) if kind == "double" else _zigzag(value))


def _zigzag(number: int) -> bytes:
    left = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*found, left))


def protobuf_descriptor() -> bytes:
    """A descriptor set with the message of a click, the second one of its file."""
    files = FileDescriptorSet()
    file = files.file.add(name="click.proto", package="shop", syntax="proto2")
    file.message_type.add(name="Unused")
    click = file.message_type.add(name="Click")
    kinds = {"string": "TYPE_STRING", "long": "TYPE_INT64", "int": "TYPE_SINT32", "double": "TYPE_DOUBLE"}
    for number, (name, kind) in enumerate(FIELDS.items(), start=1):
        kind_of = FieldDescriptorProto.Type.Value(kinds[kind])
        click.field.add(name=name, number=number, type=kind_of, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return bytes(files.SerializeToString())


def protobuf_value(click: ClickEvent) -> bytes:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(protobuf_descriptor()).file:
        pool.Add(file)
    values = {name: getattr(click, name) for name in FIELDS if getattr(click, name) is not None}
    message = GetMessageClass(pool.FindMessageTypeByName(CLICK))(**values)
    return bytes(message.SerializeToString())
