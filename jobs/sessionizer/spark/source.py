"""The stream's source as rows of the declared columns plus three of ours.

``_raw`` (string): the row as it came, where it came as text. ``_position`` (string): where it was read.
``_fault`` (string): why it cannot be parsed, null when it can; a value of ``QuarantineReason``.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from sessionizer.core.reasons import QuarantineReason
from sessionizer.errors import InvalidSpec, SourceUnreachable
from sessionizer.spark.expressions import first_line

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from sessionizer.spec.source import DeltaSource, FilesSource, KafkaSource, SocketSource, Source

RAW, POSITION, FAULT = "_raw", "_position", "_fault"
_CORRUPT = "_corrupt_record"
Reader: TypeAlias = Any
"""A DataStreamReader or a DataFrameReader: PySpark has no common type for the two."""
# Options of the file reader; what else is given belongs to the parser of the encoding.
_READER_OPTIONS = frozenset(
    name.lower()
    for name in (
        "maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "latestFirst", "fileNameOnly", "pathGlobFilter",
        "recursiveFileLookup", "modifiedAfter", "modifiedBefore", "cleanSource", "sourceArchiveDir",
        "maxCachedFiles", "discardCachedInputRatio",
    )
)  # fmt: skip


def read_source(spark: SparkSession, source: Source, home: Path, max_event_bytes: int, *, stream: bool) -> DataFrame:
    """The rows of ``source``, unbounded (``stream``) or all there is now.

    Raises InvalidSpec where the source's own fields are wrong.
    """
    reader: Reader = spark.readStream if stream else spark.read
    match source.format:
        case "files":
            return _files(reader, source, home, max_event_bytes)
        case "delta":
            return _delta(reader, source, home)
        case "kafka":
            return _kafka(reader, source, max_event_bytes)
        case "socket":
            return _socket(reader, source, max_event_bytes)


def check_reachable(source: Source, timeout_s: float = 5.0) -> None:
    """Raises SourceUnreachable when no broker (or socket) of ``source`` accepts a connection."""
    if source.format == "kafka":
        addresses = source.bootstrap_servers.split(",")
    elif source.format == "socket":
        addresses = [f"{source.host}:{source.port}"]
    else:
        return
    causes = [_connection_failure(address.strip(), timeout_s) for address in addresses]
    if all(causes):
        raise SourceUnreachable(",".join(addresses), str(causes[0]))


def _connection_failure(address: str, timeout_s: float) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s):
            return None
    except (OSError, ValueError) as error:
        return str(error)


def _files(reader: Reader, source: FilesSource, home: Path, max_event_bytes: int) -> DataFrame:
    folder = home / source.path
    if not folder.is_dir():
        raise InvalidSpec("source.path", source.path, f"an existing folder (looked for {folder})")
    reader_options = {name: value for name, value in source.options.items() if name.lower() in _READER_OPTIONS}
    parser_options = {name: value for name, value in source.options.items() if name not in reader_options}
    reader = reader.options(**reader_options)
    path = F.col("_metadata.file_path")
    if source.encoding in ("text", "json"):
        lines = reader.format("text").load(str(folder)).select("value", path.alias(POSITION))
        return _parse_text(lines, source.encoding, source.columns, parser_options, max_event_bytes)
    columns = _declared(source.columns)
    if source.encoding == "csv":
        columns = columns.add(_CORRUPT, StringType())
        parser_options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE", **parser_options}
    rows: DataFrame = reader.format(source.encoding).schema(columns).options(**parser_options).load(str(folder))
    names = [name for name in rows.columns if name != _CORRUPT]
    corrupt = F.col(_CORRUPT) if source.encoding == "csv" else F.lit(None).cast("string")
    fault = F.when(corrupt.isNotNull(), F.lit(QuarantineReason.MALFORMED.value))
    return rows.select(*names, corrupt.alias(RAW), path.alias(POSITION), fault.alias(FAULT))


def _delta(reader: Reader, source: DeltaSource, home: Path) -> DataFrame:
    try:
        rows: DataFrame = reader.format("delta").options(**source.options).load(str(home / source.path))
    except PySparkException as error:
        raise InvalidSpec("source.path", source.path, f"a Delta table ({first_line(error)})") from error
    nothing = F.lit(None).cast("string")
    return rows.select("*", nothing.alias(RAW), nothing.alias(POSITION), nothing.alias(FAULT))


def _kafka(reader: Reader, source: KafkaSource, max_event_bytes: int) -> DataFrame:
    options = {
        "startingOffsets": source.starting_offsets,
        **source.options,
        **{option: _environment(option, name) for option, name in source.options_from_environment.items()},
        "kafka.bootstrap.servers": source.bootstrap_servers,
        "subscribe": source.topic,
        "includeHeaders": "true",
        # offsets that aged out are lost events: the stream must say so, not go on
        "failOnDataLoss": "true",
    }
    position = F.concat_ws("-", "topic", "partition", "offset")
    about = F.struct(
        F.col("key").cast("string").alias("key"), "topic", "partition", "offset", "timestamp", "headers"
    ).alias("kafka")
    lines = reader.format("kafka").options(**options).load()
    lines = lines.select(F.col("value").cast("string").alias("value"), position.alias(POSITION), about)
    return _parse_text(lines, source.encoding, source.columns, {}, max_event_bytes)


def _environment(option: str, name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise InvalidSpec(f"source.options_from_environment.{option}", name, "the name of a set environment variable")
    return value


def _socket(reader: Reader, source: SocketSource, max_event_bytes: int) -> DataFrame:
    lines = reader.format("socket").option("host", source.host).option("port", source.port).load()
    lines = lines.select("value", F.lit(None).cast("string").alias(POSITION))
    return _parse_text(lines, source.encoding, source.columns, {}, max_event_bytes)


def _parse_text(
    lines: DataFrame, encoding: str, columns: str | None, options: dict[str, str], max_event_bytes: int
) -> DataFrame:
    """Rows of a column ``value`` (one event each) with their faults; ``json`` becomes its declared columns."""
    fault = (
        F.when(F.octet_length("value") > max_event_bytes, F.lit(QuarantineReason.OVERSIZED.value))
        .when(~F.expr("is_valid_utf8(value)"), F.lit(QuarantineReason.INVALID_UTF8.value))
    )  # fmt: skip
    raw = F.expr("make_valid_utf8(value)").alias(RAW)
    others = [name for name in lines.columns if name != "value"]
    if encoding == "text":
        return lines.select("value", *others, raw, fault.alias(FAULT))
    parsed = _from_json(_declared(columns), options)
    names = [F.col(f"parsed.`{name}`") for name in _declared(columns).names]
    rows = lines.select("value", *others, parsed.alias("parsed"))
    return rows.select(*names, *others, raw, fault.otherwise(_json_fault()).alias(FAULT))


def _from_json(columns: StructType, options: dict[str, str]) -> Column:
    permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_json("value", StructType([*columns]).add(_CORRUPT, StringType()), {**options, **permissive})


def _json_fault() -> Column:
    """Spark marks a record it cannot fit into the columns; that it is JSON at all tells the two reasons apart."""
    unfit = F.col(f"parsed.{_CORRUPT}").isNotNull() | F.col("value").isNull() | (F.trim("value") == "")
    is_object = F.expr("json_object_keys(value)").isNotNull()
    return F.when(
        unfit, F.when(is_object, QuarantineReason.WRONG_TYPE.value).otherwise(QuarantineReason.MALFORMED.value)
    )


def _declared(columns: str | None) -> StructType:
    try:
        declared = StructType.fromDDL(columns or "")
    except PySparkException as error:
        raise InvalidSpec("source.columns", columns, f"columns as DDL ({first_line(error)})") from error
    return cast("StructType", declared)
