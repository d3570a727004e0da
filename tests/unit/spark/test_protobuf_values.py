"""Messages of Protobuf as rows: types of fields, absent fields, and bytes of no message."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION_FILE
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE
from google.protobuf.wrappers_pb2 import DESCRIPTOR as WRAPPERS_FILE

from sessionizer.spark.ingest.kafka_values.records import parse_message
from sessionizer.stream_spec.schema_columns import protobuf_columns
from support.streams.example_streams import EXAMPLES, values_of

ONE, MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
SIMPLE: dict[str, tuple[Any, Any]] = {
    "DOUBLE": (0.5, 0.5), "FLOAT": (0.5, 0.5), "INT32": (-1, -1), "SINT32": (-2, -2), "SFIXED32": (-3, -3),
    "UINT32": (2**32 - 1, 2**32 - 1), "FIXED32": (7, 7), "INT64": (-(2**63), -(2**63)), "SINT64": (-5, -5),
    "SFIXED64": (-6, -6), "UINT64": (2**64 - 1, Decimal(2**64 - 1)), "FIXED64": (8, Decimal(8)),
    "BOOL": (True, True), "STRING": ("ü", "ü"), "BYTES": (b"\xff", b"\xff"),
}  # fmt: skip
"""Each simple type, with a value and what it comes as."""
ARROW = {
    "double": pa.float64(), "float": pa.float32(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(),
    "decimal(20,0)": pa.decimal128(20, 0), "string": pa.string(), "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}  # fmt: skip
"""Arrow's types by Spark's, as Spark exchanges them with Python."""
KNOWN = {
    "Timestamp": ({"seconds": 1, "nanos": 2_000}, datetime(1970, 1, 1, 0, 0, 1, 2, tzinfo=UTC)),
    "Duration": ({"seconds": 1, "nanos": 2_000}, 1_000_002),
    "StringValue": ({"value": ""}, ""),
    "UInt64Value": ({"value": 3}, Decimal(3)),
}


def descriptor() -> bytes:
    """A message with a field of each simple type, its list, and the well-known messages."""
    files = FileDescriptorSet()
    for each in (DURATION_FILE, TIMESTAMP_FILE, WRAPPERS_FILE):
        each.CopyToProto(files.file.add())
    names = [file.name for file in files.file]
    file = FileDescriptorProto(name="all.proto", syntax="proto3", dependency=names)
    message = file.message_type.add(name="All")
    for number, name in enumerate(SIMPLE, start=1):
        kind = FieldDescriptorProto.Type.Value(f"TYPE_{name}")
        message.field.add(name=name.lower(), number=number, type=kind, label=ONE)
        message.field.add(name=f"{name.lower()}_list", number=100 + number, type=kind, label=MANY)
    for number, name in enumerate(KNOWN, start=200):
        kind = FieldDescriptorProto.TYPE_MESSAGE
        message.field.add(name=name.lower(), number=number, type=kind, label=ONE, type_name=f".google.protobuf.{name}")
    files.file.append(file)
    return bytes(files.SerializeToString())


def written(**fields: Any) -> bytes:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptor()).file:
        pool.Add(file)
    return bytes(GetMessageClass(pool.FindMessageTypeByName("All"))(**fields).SerializeToString())


def as_column(value: Any, name: str) -> Any:
    """The value of the column as Spark gets it: in the type that the descriptor gives to it."""
    kinds = dict(each.split(" ", 1) for each in protobuf_columns(descriptor(), "All").split(", "))
    kind = kinds[name]
    if kind.startswith("array<"):
        return pa.array([value], pa.list_(ARROW[kind[6:-1]])).to_pylist()[0]
    return pa.array([value], ARROW[kind]).to_pylist()[0]


@pytest.mark.parametrize("name", SIMPLE)
def test_each_simple_type_comes_with_each_of_its_values(name: str) -> None:
    given, wanted = SIMPLE[name]
    one, many = name.lower(), f"{name.lower()}_list"
    row = parse_message(descriptor(), "All", written(**{one: given, many: [given, given]}))
    assert row is not None
    assert row.keys() == {one, many}
    assert as_column(row[one], one) == wanted
    assert as_column(row[many], many) == [wanted, wanted]


@pytest.mark.parametrize("name", KNOWN)
def test_known_messages_come_as_values(name: str) -> None:
    given, wanted = KNOWN[name]
    row = parse_message(descriptor(), "All", written(**{name.lower(): given}))
    assert row is not None
    assert as_column(row[name.lower()], name.lower()) == wanted


def test_nested_messages_lists_maps_and_numbers_of_enums() -> None:
    content = (EXAMPLES / "protobuf_clicks.desc").read_bytes()
    rows = [parse_message(content, "shop.Click", value) for value in values_of("protobuf_clicks")]
    assert [row and row["event_id"] for row in rows] == ["e-1", "e-2", "e-3", "e-4", "e-5", "e-6", None, None, None]
    view, purchase, _, unheard, *_ = rows
    assert view
    assert purchase
    assert unheard
    assert view["labels"] == [("country", "DE")]
    assert view["at"] == datetime(2024, 3, 5, 14, 0, tzinfo=UTC).timestamp() * 1_000_000
    assert purchase["items"] == [{"sku": "p-7", "count": 2}, {"sku": "p-8", "count": 1}]
    assert (view["kind"], purchase["kind"], unheard["kind"]) == ("VIEW", "PURCHASE", "7")
    assert (view.get("amount_cents"), purchase["amount_cents"]) == (None, 3980)
