"""Every option that the readers of the pinned Spark, Delta and Kafka source know has its row in our table."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.core.wire import schema
from sessionizer.spark.history.read import history_of
from sessionizer.spark.ingest.guard import REASON, guard
from sessionizer.spark.ingest.kafka_values.records import parse_records
from sessionizer.spark.ingest.kafka_values.registry import RegistryClient, Writers, find_writers
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.internals.java_class import java_class
from sessionizer.spark.query.assembly import rules_of
from sessionizer.stream_spec.document.reader_options import find_options
from sessionizer.stream_spec.document.source import KafkaSource
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import load_stream
from support.stores.schema_registry import SchemaRegistry
from support.streams.spec_folder import EXAMPLES, NAMES, expected_file, values_of

FILES = "org.apache.spark.sql.execution"
OF_WRITERS = """
    codec compression dataChange dropFieldIfAllNull escapeQuotes extension ignoreNullFields maxRecordsPerFile
    mergeSchema optimizeWrite overwriteSchema parquet.compression parquet.writer.version partitionOverwriteMode pretty
    quoteAll replaceOn replaceUsing replaceWhere sortKeys spark.sql.parquet.outputTimestampType targetAlias topic
    txnAppId txnVersion useNullIntolerantEqualityWithDPO userMetadata writeNonAsciiCharacterAsCodePoint
    writePartitionColumns
"""
OF_READERS_THAT_FIND_COLUMNS = """
    basePath inferSchema inferTimestamp preferDate prefersDecimal primitivesAsString samplingRatio singleVariantColumn
"""
OF_PARTS_THAT_A_STREAM_DOES_NOT_USE = """
    _mockSystemTime columnPruning inputBufferSize useUnsafeRow wholetext
    json.charset json.encoding json.multiLine text.encoding
"""
WITHOUT_EFFECT = frozenset(f"{OF_WRITERS} {OF_READERS_THAT_FIND_COLUMNS} {OF_PARTS_THAT_A_STREAM_DOES_NOT_USE}".split())


def module(spark: SparkSession, name: str) -> Any:
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    return java_class(spark, "java.lang.Class").forName(name, True, loader)


def declared(spark: SparkSession, name: str) -> set[str]:
    options = module(spark, f"{name}$").getField("MODULE$").get(None).getAllOptions().toList()
    return {str(options.apply(place)) for place in range(options.size())}


def constants(spark: SparkSession, name: str, fits: str) -> set[str]:
    """The texts of a Scala object's fields whose names fit."""
    kind = module(spark, f"{name}$")
    companion = kind.getField("MODULE$").get(None)
    found = set()
    for field in kind.getDeclaredFields():
        if re.fullmatch(fits, field.getName()) and str(field.getType().getName()) == "java.lang.String":
            field.setAccessible(True)
            found.add(str(field.get(companion)))
    return found


def known_options(spark: SparkSession, source: str) -> set[str]:
    match source:
        case "csv" | "json":
            return declared(spark, f"org.apache.spark.sql.catalyst.{source}.{source.upper()}Options")
        case "text" | "parquet":
            return declared(spark, f"{FILES}.datasources.{source}.{source.capitalize()}Options")
        case "folder":
            stream = module(spark, f"{FILES}.streaming.runtime.FileStreamOptions").getDeclaredFields()
            fields = {re.sub("Ms$", "", str(field.getName())) for field in stream}
            names = {name for name in fields if "$" not in name} - {"parameters", "optionMapWithoutPath"}
            corrupt = constants(spark, "org.apache.spark.sql.catalyst.FileSourceOptions", ".*")
            return names | corrupt | declared(spark, f"{FILES}.datasources.FileIndexOptions")
        case "delta":
            values = "PARTITION_OVERWRITE_MODE_.+|REPLACE_USING_INTERNAL.*|.*_DEFAULT"
            return constants(spark, "org.apache.spark.sql.delta.DeltaOptions", rf"(?!{values})[A-Z_]+")
        case _:
            fits = r"[A-Z_]+_KEY|.*\$\$[A-Z_]+|[A-Z_]+(PREFIX|TRIGGER|DELAY|RETRY|MS|TIMEOUT|HEADERS|TIME)"
            name = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
            return constants(spark, name, rf"(?!DEFAULT_)({fits})")


@pytest.mark.parametrize("source", ["csv", "json", "text", "parquet", "folder", "delta", "kafka"])
def test_each_option_has_its_row(spark: SparkSession, source: str) -> None:
    known = known_options(spark, source)
    assert len(known) > 3, known
    reader = "csv" if source == "folder" else source
    nameless = {name for name in known if not {name, f"{source}.{name}"} & WITHOUT_EFFECT}
    nameless = {name for name in nameless if find_options(name, reader) is None}
    assert not nameless, "say in reader_options.py what a stream does with them"


RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    """The registry of the example in Avro: an older version of its schema, and the one beside the spec."""
    with SchemaRegistry() as found:
        for number, file in ((11, "avro_clicks.v1.avsc"), (12, "avro_clicks.avsc")):
            found.register("clicks-value", number, (EXAMPLES / file).read_text())
        yield found


def writers_of(source: KafkaSource, registry: SchemaRegistry) -> Writers | None:
    if source.registry is None:
        return None
    there = source.registry.model_copy(update={"url": registry.url})
    return find_writers(RegistryClient(there, source.encoding), source, (), is_final=True)


def rows_of(spark: SparkSession, spec: StreamSpec, home: Path, registry: SchemaRegistry) -> DataFrame:
    source, values = spec.source, values_of(spec.name)
    if source.format == "files":
        folder = home / source.path
        folder.mkdir(parents=True)
        (folder / "rows").write_bytes(b"\n".join(value or b"" for value in values) + b"\n")
        return read_source(spark, source, home, spec.rules.max_event_bytes, stream=False)
    assert source.format == "kafka"
    came = datetime(2024, 3, 6, tzinfo=UTC)
    records = [(None, value, source.topic, 0, offset, came, None) for offset, value in enumerate(values)]
    found = spark.createDataFrame(records, RECORD).coalesce(1)
    reader = source.value_schema.content if source.value_schema else ""
    return parse_records(found, source, spec.rules.max_event_bytes, writers_of(source, registry), reader)


def made_of(spark: SparkSession, spec: StreamSpec, rows: DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Events, refused rows and sessions, as the file beside the spec has them."""
    guarded = guard(rows, spec)
    names = guarded.payload.names
    kept = guarded.rows.select(
        F.col(schema.KEY).alias("key"), F.col(schema.CLIENT).alias("client"),
        F.timestamp_millis(schema.CLOCK).alias("at"), F.col(schema.EVENT_ID).alias("event_id"),
        F.col(schema.CLOSES).alias("closes"), *(F.col(f"{schema.PAYLOAD}_{name}").alias(name) for name in names),
        REASON, F.col("_raw").alias("raw"),
    ).collect()  # fmt: skip
    history = history_of(spec, rules_of(spec), guarded)
    sessions = history.sessions(history.take(None))
    shown = sessions.select("key", "started_at", "ended_at", "event_count", "close_reason", *spec.measures)
    return {
        "events": [plain(row.asDict(), without=(REASON, "raw")) for row in kept if row[REASON] is None],
        "refused": [plain({"reason": row[REASON], "raw": row["raw"]}) for row in kept if row[REASON] is not None],
        "sessions": [plain(row.asDict()) for row in shown.orderBy("key", "started_at").collect()],
    }


def plain(row: dict[str, Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    told = {name: value for name, value in row.items() if name not in without and value is not None}
    return {name: value if isinstance(value, bool | int | float | str) else str(value) for name, value in told.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_become_the_events_and_sessions_beside_them(
    spark: SparkSession, registry: SchemaRegistry, tmp_path: Path, name: str
) -> None:
    spec = load_stream(EXAMPLES / f"{name}.yaml")
    rows = rows_of(spark, spec, tmp_path, registry)
    assert made_of(spark, spec, rows) == json.loads(expected_file(name).read_text(encoding="utf-8"))
