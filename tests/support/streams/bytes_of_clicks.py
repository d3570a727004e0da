"""Clicks as values in bytes, written by encoders of their own: Avro with Confluent's header, and Protobuf."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer_demo.feed.traffic.events import ClickEvent

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
    """The click in Protobuf."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(protobuf_descriptor()).file:
        pool.Add(file)
    values = {name: getattr(click, name) for name in FIELDS if getattr(click, name) is not None}
    message = GetMessageClass(pool.FindMessageTypeByName(CLICK))(**values)
    return bytes(message.SerializeToString())
