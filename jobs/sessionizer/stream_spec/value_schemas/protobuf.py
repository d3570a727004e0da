"""Columns of a Protobuf message, and its descriptor in a file that ``protoc`` wrote. Pure, and without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.descriptor import Descriptor, FieldDescriptor

TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages around one ``value``, which may be absent."""
_SIMPLE: Final = {
    "double": "double", "float": "float", "bool": "boolean", "string": "string", "bytes": "binary", "enum": "string",
    "int32": "int", "sint32": "int", "sfixed32": "int", "uint32": "bigint", "fixed32": "bigint",
    "int64": "bigint", "sint64": "bigint", "sfixed64": "bigint", "uint64": "decimal(20,0)", "fixed64": "decimal(20,0)",
}  # fmt: skip
"""Spark's types by those of Protobuf. A type without a sign gets one that has all of its values."""


def message_descriptor(content: bytes, message: str) -> Descriptor:
    """Return the descriptor of ``message`` (its full name) in ``content``, a FileDescriptorSet.

    Raises ValueError, which says what is wrong.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415  only streams with Protobuf need it
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(content).file:
            pool.Add(file)
        return pool.FindMessageTypeByName(message)
    except KeyError as error:
        raise ValueError(f"a descriptor set that has the message {message}, with its imports") from error
    except (DecodeError, TypeError) as error:
        raise ValueError(f"a descriptor set as protoc writes it ({error})") from error


def protobuf_columns(content: bytes, message: str) -> str:
    """Return the columns of ``message`` as Spark DDL. Raises ValueError for a message within itself, too."""
    descriptor = message_descriptor(content, message)
    return ", ".join(f"{each.name} {_type(each, (message,))}" for each in descriptor.fields)


def is_map(field: FieldDescriptor) -> bool:
    """Whether ``field`` is a map, which Protobuf keeps as a list of entries."""
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _type(field: FieldDescriptor, inside: Sequence[str]) -> str:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{_single(key, inside)}, {_single(value, inside)}>"
    return f"array<{_single(field, inside)}>" if field.is_repeated else _single(field, inside)


def _single(field: FieldDescriptor, inside: Sequence[str]) -> str:
    message = field.message_type
    if message is None:
        return _simple(field)
    if message.full_name == TIMESTAMP:
        return "timestamp"
    if message.full_name == DURATION:
        return "bigint"
    if message.full_name in WRAPPERS:
        return _simple(message.fields_by_name["value"])
    if message.full_name in inside:
        raise ValueError(f"messages that end, not {message.full_name} within itself")
    fields = (f"{each.name}: {_type(each, (*inside, message.full_name))}" for each in message.fields)
    return f"struct<{', '.join(fields)}>"


def _simple(field: FieldDescriptor) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto  # noqa: PLC0415

    return _SIMPLE[FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()]
