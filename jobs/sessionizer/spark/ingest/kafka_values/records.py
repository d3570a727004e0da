"""Records of Kafka as rows of the source's columns. A value that cannot be parsed keeps its record, with a fault.

``_raw`` of values in bytes is base64. Messages of Protobuf are parsed by Google's library in the Python workers
(docs/adr/0154). A field that is not in the bytes is null, as with Spark's ``from_protobuf``.
"""

from __future__ import annotations

import base64
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.errors import InvalidSpec
from sessionizer.spark.ingest.file_source.lines import FAULT, POSITION, RAW, parse_column_schema, parse_lines
from sessionizer.spark.ingest.kafka_values.registry import UNKNOWN_ID, Writers
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.internals.trying import try_column
from sessionizer.stream_spec.schema_columns import DURATION, TIMESTAMP, WRAPPERS, is_map, message_descriptor

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

    from sessionizer.stream_spec.document.source import KafkaSource


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
        of_key, of_value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
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
    if (name := field.message_type.full_name) in {TIMESTAMP, DURATION}:
        return value.seconds * 1_000_000 + value.nanos // 1_000
    if name in WRAPPERS:
        return _single(field.message_type.fields_by_name["value"], value.value)
    return _fields(value)


HEADER_BYTES: Final = 5
"""A zero byte, and the id of a schema in four bytes."""
_ID: Final = "cast(conv(hex(substring(value, 2, 4)), 16, 10) as bigint)"
_HAS_HEADER: Final = f"octet_length(value) >= {HEADER_BYTES} and hex(substring(value, 1, 1)) = '00'"


def parse_records(
    records: DataFrame, source: KafkaSource, max_event_bytes: int, writers: Writers | None = None, reader: str = ""
) -> DataFrame:
    """Parse the values of Kafka's ``records``. ``reader``: the schema of Avro with the columns. Raises InvalidSpec."""
    position = F.concat_ws("-", "topic", "partition", "offset").alias(POSITION)
    key = F.col("key").cast("string").alias("key")
    about = F.struct(key, "topic", "partition", "offset", "timestamp", "headers").alias("kafka")
    if source.encoding in {"json", "text"}:
        lines = records.select(F.col("value").cast("string").alias("value"), position, about)
        return parse_lines(lines, source.encoding, source.columns, {}, max_event_bytes)
    values = records.select("value", position, about)
    parsed = _avro(values, reader, writers) if source.encoding == "avro" else _protobuf(source, writers)
    rows, names = _add_parsed(values, parsed, source)
    columns, fault = [F.col(f"parsed.`{name}`") for name in names], _fault(max_event_bytes, writers)
    raw = F.translate(F.base64("value"), "\r\n", "")  # Spark breaks it into lines
    return rows.select(*columns, POSITION, "kafka", raw.alias(RAW), fault.alias(FAULT))


def _add_parsed(values: DataFrame, parsed: Column, source: KafkaSource) -> tuple[DataFrame, list[str]]:
    field = "source.schema" if source.value_schema is not None else "source.registry.version"
    shown = source.value_schema.file if source.value_schema else source.registry and source.registry.version
    try:
        rows = values.select("*", parsed.alias("parsed"))
        kind = rows.schema["parsed"].dataType
    except (PySparkException, JavaError) as error:
        raise InvalidSpec(field, shown, f"a schema that Spark can read ({java_message(error)})") from error
    if not isinstance(kind, StructType):
        raise InvalidSpec(field, shown, "a schema of a record")
    return rows, kind.names


def _avro(values: DataFrame, reader: str, writers: Writers | None) -> Column:
    """Return the values as the ``reader`` has them. What cannot be parsed is null, which PERMISSIVE does not tell."""
    spark, strict = values.sparkSession, {"mode": "FAILFAST"}
    if writers is None:
        return try_column(from_avro("value", reader, strict), spark)
    body, evolved = F.expr(f"substring(value, {HEADER_BYTES + 1})"), {**strict, "avroSchema": reader}
    parsed = F.when(F.col("value").isNull(), F.lit(None))
    for number, written in writers.known.items():
        one = try_column(from_avro(body, written, evolved), spark)
        parsed = parsed.when(F.expr(f"{_HAS_HEADER} and {_ID} = {number}"), one)
    return parsed


def _protobuf(source: KafkaSource, writers: Writers | None) -> Column:
    schema = source.value_schema
    assert schema is not None  # noqa: S101  the spec is checked
    body = F.col("value")
    if writers is not None:
        body = F.when(F.col("value").isNull(), F.lit(None).cast("binary"))
        for number, indexes in writers.known.items():
            begin = f"00{number:08x}{indexes}"
            fits = f"startswith(value, X'{begin}')"
            body = body.when(F.expr(fits), F.expr(f"substring(value, {len(begin) // 2 + 1})"))
    content = base64.b64decode(schema.content)
    return parse_messages(body, content, source.message or "", parse_column_schema(schema.columns))


def _fault(max_event_bytes: int, writers: Writers | None) -> Column:
    malformed = F.lit(QuarantineReason.MALFORMED.value)
    fault = F.when(F.col("value").isNull(), malformed)
    fault = fault.when(F.octet_length("value") > max_event_bytes, F.lit(QuarantineReason.OVERSIZED.value))
    if writers is not None:
        fault = fault.when(~F.expr(_HAS_HEADER), malformed)
        number, unknown = F.expr(_ID), F.lit(QuarantineReason.UNKNOWN_SCHEMA.value)
        fault = fault.when(number.isin(sorted(writers.absent)), unknown)
        ask = F.raise_error(F.concat(F.lit(f"[{UNKNOWN_ID} "), number.cast("string"), F.lit("]")))
        fault = fault.when(~number.isin(sorted(writers.known)), unknown if writers.is_final else ask.cast("string"))
    return fault.when(F.col("parsed").isNull(), malformed)
