"""Records of Kafka as rows of the source's columns. A value that cannot be parsed keeps its record, with a fault.

``_raw`` of values in bytes is base64.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.errors import InvalidSpec
from sessionizer.spark.ingest.file_source.lines import FAULT, POSITION, RAW, parse_column_schema, parse_lines
from sessionizer.spark.ingest.kafka_values.protobuf import parse_messages
from sessionizer.spark.ingest.kafka_values.writers import UNKNOWN_ID
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.internals.trying import try_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from sessionizer.spark.ingest.kafka_values.writers import Writers
    from sessionizer.stream_spec.document.source import KafkaSource

HEADER_BYTES: Final = 5
"""A zero byte, and the id of a schema in four bytes."""
_ID: Final = "cast(conv(hex(substring(value, 2, 4)), 16, 10) as bigint)"
_HAS_HEADER: Final = f"octet_length(value) >= {HEADER_BYTES} and hex(substring(value, 1, 1)) = '00'"


def parse_records(
    records: DataFrame, source: KafkaSource, max_event_bytes: int, writers: Writers | None = None, reader: str = ""
) -> DataFrame:
    """Parse the values of ``records``, which have the columns of Spark's Kafka source.

    ``writers``: the schemas of values with a header. ``reader``: the schema of Avro that gives the columns. Raises
    InvalidSpec.
    """
    position = F.concat_ws("-", "topic", "partition", "offset").alias(POSITION)
    about = F.struct(
        F.col("key").cast("string").alias("key"), "topic", "partition", "offset", "timestamp", "headers"
    ).alias("kafka")
    if source.encoding in {"json", "text"}:
        lines = records.select(F.col("value").cast("string").alias("value"), position, about)
        return parse_lines(lines, source.encoding, source.columns, {}, max_event_bytes)
    values = records.select("value", position, about)
    parsed = _avro(values, reader, writers) if source.encoding == "avro" else _protobuf(source, writers)
    rows, names = _add_parsed(values, parsed, source)
    columns = [F.col(f"parsed.`{name}`") for name in names]
    fault = _fault(max_event_bytes, writers)
    raw = F.translate(F.base64("value"), "\r\n", "")  # Spark breaks it into lines
    return rows.select(*columns, POSITION, "kafka", raw.alias(RAW), fault.alias(FAULT))


def _add_parsed(values: DataFrame, parsed: Column, source: KafkaSource) -> tuple[DataFrame, list[str]]:
    """Return ``values`` with the struct that they are parsed to, and the names of its fields."""
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
