"""A sample of rows: the columns that Spark infers, and what the first rows become under a spec."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, Row, StructType

from sessionizer.core.wire import schema
from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.home.data_files import files_below
from sessionizer.home.roots import folder_at, resolve_place
from sessionizer.spark.history.read import client_timeouts, history_of, rules_in_force
from sessionizer.spark.ingest.file_source.files import literal
from sessionizer.spark.ingest.file_source.lines import CORRUPT, RAW
from sessionizer.spark.ingest.guard import EVENT_TIME, REASON, guard
from sessionizer.spark.ingest.source import kafka_options, read_source
from sessionizer.spark.ingest.topics import topic_ids
from sessionizer.stream_spec.document.source import KafkaSource
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.sample import KAFKA, SampleColumn, TextForm, quote

SHOWN: Final = 10
"""Number of rows that a preview shows."""
_SAMPLED: Final = 200
_MANY: Final = 1_000
"""Number of files, more of which would take long to look at."""


def sample_files(
    spark: SparkSession, files: Sequence[Path], folder: Path, form: TextForm
) -> tuple[list[SampleColumn], list[str]]:
    """Return the columns with their first values, and their DDL. Moments in CSV stay text: the mapping reads them."""
    reader = spark.read.option("basePath", literal(str(folder)))
    path = [literal(str(file)) for file in files]
    if form.encoding == "json":
        rows = reader.json(path).drop(CORRUPT)
    elif form.encoding == "parquet":
        rows = reader.parquet(*path)
    else:
        plain: dict[str, Any] = {"sep": form.separator, "header": form.has_header, "escape": '"'}
        texts = reader.options(**plain).csv(path)
        inferred = reader.options(**plain, inferSchema=True).csv(path).schema
        moments = ("timestamp", "date", "time", "void")
        is_text = {field.name: field.dataType.simpleString().startswith(moments) for field in inferred}
        kinds = {field.name: "string" if is_text[field.name] else ddl(field.dataType) for field in inferred}
        first = texts.limit(_SAMPLED).collect()
        # a number would be another text than the one in the file, such as 007
        zeros = re.compile(r"0\d+")
        kinds |= {name: "string" for name in texts.columns if any(zeros.fullmatch(row[name] or "") for row in first)}
        rows = texts.select(*(F.col(quote(name)).cast(kind).alias(name) for name, kind in kinds.items()))
    return sample_columns(rows), ddl_of(rows)


def ddl(kind: DataType) -> str:
    """Write a type as DDL, whole numbers as bigint, because a sample does not show the largest."""
    match kind:
        case StructType():
            return f"struct<{', '.join(f'{quote(each.name)}: {ddl(each.dataType)}' for each in kind)}>"
        case ArrayType():
            return f"array<{ddl(kind.elementType)}>"
        case MapType():
            return f"map<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
        case NullType():
            return "string"
    return "bigint" if kind.simpleString() in {"int", "smallint", "tinyint"} else kind.simpleString()


def sample_columns(rows: DataFrame) -> list[SampleColumn]:
    """Return the columns of ``rows``, those in structs one by one, with their values in the first rows."""
    return list(_columns(rows.schema, (), rows.limit(_SAMPLED).collect()))


def _columns(kinds: StructType, path: tuple[str, ...], rows: Sequence[Row | None]) -> Iterator[SampleColumn]:
    for field in kinds:
        values: list[Any] = [None if row is None else row[field.name] for row in rows]
        if isinstance(field.dataType, StructType):
            yield from _columns(field.dataType, (*path, field.name), values)
        else:
            yield SampleColumn((*path, field.name), ddl(field.dataType), tuple(values))


def sample_topic(spark: SparkSession, source: KafkaSource) -> tuple[list[SampleColumn], list[str]]:
    """Return the columns of a topic's first records, and those of their values as DDL.

    Raises InvalidSpec, SourceUnreachable, SourceMissing, SourceForbidden.
    """
    topic_ids(spark, source.topic, source)
    records = spark.read.format("kafka").options(**kafka_options(source)).load().limit(_SAMPLED)
    first = records.selectExpr("cast(key as string) key", "cast(value as string) value", "timestamp").collect()
    values = [each.value for each in first if each.value and each.value.lstrip().startswith("{")]
    if not values:
        allowed = "a topic with records, each a JSON object. For Avro, Protobuf and text: docs/sources.md"
        raise InvalidSpec("--topic", source.topic, allowed)
    rows = spark.read.json(spark.sparkContext.parallelize(values)).drop(CORRUPT)
    found = sample_columns(rows)
    if any(each.key for each in first):
        found.append(SampleColumn((KAFKA, "key"), "string", tuple(each.key for each in first)))
    found.append(SampleColumn((KAFKA, "timestamp"), "timestamp", tuple(each.timestamp for each in first)))
    return found, ddl_of(rows)


def ddl_of(rows: DataFrame) -> list[str]:
    """Return the columns of ``rows`` as DDL, one each."""
    return [f"{quote(field.name)} {ddl(field.dataType)}" for field in rows.schema]


@dataclass(frozen=True, slots=True)
class SamplePreview:
    """The first rows as ``events``, as ``sessions`` (None if they need times of arrival), and as ``refused`` ones."""

    events: list[Row]
    sessions: list[Row] | None
    refused: list[Row]


def preview(spark: SparkSession, spec: StreamSpec, platform_home: Path) -> SamplePreview:
    """Return what the first rows become. Raises InvalidSpec, SourceFileUnfit, SessionizerError for too many files."""
    if not spec.source.keeps_events:
        return SamplePreview([], None, [])
    if spec.source.format == "files":
        folder = folder_at(resolve_place(spec.source.path, platform_home), "source.path")
        pattern = spec.source.options.get("pathGlobFilter", "*")
        # braces are a word of Hadoop's patterns alone
        fitting = (file for file in files_below(folder) if "{" in pattern or fnmatch(file.name, pattern))
        if sum(1 for _ in islice(fitting, _MANY + 1)) > _MANY:
            raise SessionizerError(f"its folder has more than {count_text(_MANY, 'file')}, and each would be looked at")
    rows = read_source(spark, spec.source, platform_home, spec.rules.max_event_bytes, stream=False)
    guarded = guard(rows.limit(SHOWN).localCheckpoint(), spec)
    is_event = F.col(REASON).isNull()
    events = guarded.rows.where(is_event).select(schema.KEY, schema.CLIENT, EVENT_TIME, schema.EVENT_ID).collect()
    refused = guarded.rows.where(~is_event).select(REASON, RAW).collect()
    if spec.rules.clock.needs_arrivals:
        return SamplePreview(events, None, refused)
    history = history_of(spec, rules_in_force(spec, client_timeouts(spark, spec, platform_home)), guarded)
    shown = ("key", "client", "started_at", "ended_at", "event_count", "close_reason")
    sessions = history.sessions(history.take(None)).orderBy("started_at").select(*shown).collect()
    return SamplePreview(events, sessions, refused)
