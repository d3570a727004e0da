"""Messages of Protobuf as rows, by Google's library in the Python workers (docs/adr/0154).

A field that is not in the bytes is null, as with Spark's ``from_protobuf``.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from sessionizer.stream_spec.value_schemas.protobuf import DURATION, TIMESTAMP, WRAPPERS, is_map, message_descriptor

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_UNSIGNED_64 = (4, 6)
"""Types ``uint64`` and ``fixed64`` in a descriptor. Spark has no integer for all of their values."""


def parse_messages(values: Column, content: bytes, message: str, columns: StructType) -> Column:
    """Return the messages in ``values`` as structs of ``columns``, null where the bytes are no such message."""

    def parse(found: pa.Array) -> pa.Array:
        from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415  runs in a worker

        kind = to_arrow_type(columns, timezone="UTC")
        return pa.array([parse_message(content, message, each.as_py()) for each in found], kind)

    rows: Column = F.arrow_udf(parse, columns)(values)  # type: ignore[attr-defined]  # PySpark's stubs lack it
    return rows


def parse_message(content: bytes, message: str, value: bytes | None) -> dict[str, Any] | None:
    """Return the fields that ``value`` has, by name. None if it is no ``message`` of the descriptor set ``content``."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    if value is None:
        return None
    try:
        return _fields(_message_class(content, message).FromString(value))
    except (DecodeError, ValueError, OverflowError):  # an instant may be outside of all years
        return None


@cache
def _message_class(content: bytes, message: str) -> type[Message]:
    from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415

    found: type[Message] = GetMessageClass(message_descriptor(content, message))
    return found


def _fields(message: Message) -> dict[str, Any]:
    return {field.name: _value(field, value) for field, value in message.ListFields()}


def _value(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401  any value of Protobuf
    if is_map(field):
        of_value = field.message_type.fields_by_name["value"]
        of_key = field.message_type.fields_by_name["key"]
        return [(_single(of_key, key), _single(of_value, each)) for key, each in value.items()]
    return [_single(field, each) for each in value] if field.is_repeated else _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401  any value of Protobuf
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.type in _UNSIGNED_64:
        return Decimal(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name in {TIMESTAMP, DURATION}:
        return value.seconds * 1_000_000 + value.nanos // 1_000
    if name in WRAPPERS:
        return _single(field.message_type.fields_by_name["value"], value.value)
    return _fields(value)
