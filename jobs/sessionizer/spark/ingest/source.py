"""The stream's source as rows of its own columns plus three of ours (``file_source.lines``)."""

import operator
import os
import re
import socket
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Final, Self

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.control.records.erasure_record import read_erased
from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.wire.erased_keys import NOBODY_ERASED, ErasedKeys
from sessionizer.errors import InvalidSpec, SourceFileUnfit, SourceUnreachable, StoreUnreachable
from sessionizer.home.roots import resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.driver_environment import ALLOWED, is_allowed, read_allowed_patterns
from sessionizer.lineage.excluded_ranges import NOTHING_EXCLUDED, ExcludedRanges, Records, read_excluded_ranges
from sessionizer.spark.failures.query_failure import store_failure
from sessionizer.spark.ingest.file_source.files import Reader, literal, read_files
from sessionizer.spark.ingest.file_source.lines import FAULT, POSITION, RAW, drop_blank_lines, parse_lines
from sessionizer.spark.ingest.file_source.unfit_files import UnreadableFiles, drop_files, find_unfit_files
from sessionizer.spark.ingest.guard import Guarded, guard
from sessionizer.spark.ingest.kafka_values.records import parse_records
from sessionizer.spark.ingest.kafka_values.registry import SCHEMA_IDS_FILE, RegistryClient, asked_ids, find_writers
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource, Source
from sessionizer.stream_spec.document.stream import StreamSpec

COMPRESSED_BYTES: Final = 128 * 1024**2
"""Limit for Parquet: some 5 to 10 million events."""
TEXT_BYTES: Final = 1024 * 1024**2
"""Limit for JSON, CSV or text: some 5 million events."""
RECORDS: Final = 5_000_000
"""Limit for Kafka, over all partitions."""
_LIMITS: Final = frozenset({"maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger"})


def read_source(
    spark: SparkSession,
    source: Source,
    home: Path,
    max_event_bytes: int,
    *,
    stream: bool,
    schema_ids: frozenset[int] | None = None,
) -> DataFrame:
    """Read the rows of ``source``, unbounded (``stream``) or all there is now.

    ``schema_ids``: ids of values beside those of the registry's subject, None if no other id may end the query.

    Raises InvalidSpec if the source's own fields are wrong, and SourceFileUnfit if not ``stream``. Raises
    SourceUnreachable if a registry does not answer.
    """
    reader: Reader = spark.readStream.options(**batch_limits(source)) if stream else spark.read
    match source.format:
        case "files":
            return _files(spark, reader, source, home, max_event_bytes)
        case "delta":
            return _delta(reader, source, home)
        case "kafka":
            # `latest` is for a stream: what there is now begins at the oldest record
            begun = source if stream else source.model_copy(update={"starting_offsets": "earliest"})
            records = reader.format("kafka").options(**kafka_options(begun)).load()
            return _parse_records(records, source, max_event_bytes, schema_ids)
        case "socket":
            lines = reader.format("socket").option("host", source.host).option("port", source.port).load()
            lines = drop_blank_lines(lines.select("value", F.lit(None).cast("string").alias(POSITION)), source.encoding)
            return parse_lines(lines, source.encoding, source.columns, {}, max_event_bytes)


def check_reachable(source: Source, timeout_s: float = 5.0) -> None:
    """Raise SourceUnreachable if no broker (or socket) of ``source`` accepts a connection."""
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
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s):
            return None
    except (OSError, ValueError) as error:
        return str(error)


def _files(spark: SparkSession, reader: Reader, source: FilesSource, home: Path, max_event_bytes: int) -> DataFrame:
    folder = resolve_place(source.path, home)
    if "://" not in folder and not Path(folder).is_dir():
        raise InvalidSpec("source.path", source.path, f"an existing folder (looked for {folder})")
    if (path := literal(folder)) != folder:
        _require_literal(spark, source, folder)
    rows = read_files(reader, source, path, max_event_bytes)
    if not rows.isStreaming:
        for file, problem in find_unfit_files(spark, source, rows.inputFiles()).items():
            raise SourceFileUnfit(file, problem)
    return rows


def _require_literal(spark: SparkSession, source: FilesSource, folder: str) -> None:
    """Raise InvalidSpec if Spark would take the folder's name for a pattern, or Hadoop finds a colon in it."""
    if ":" in folder.partition("://")[2] or ("://" not in folder and ":" in folder):
        found = r"Rename the folder: Spark reads no path with a colon and any of [ ] { } * ? \ in it"
        raise InvalidSpec("source.path", source.path, found)
    try:
        spark.read.format("binaryFile").load(literal(folder))
    except AnalysisException as error:
        raise InvalidSpec("source.path", source.path, f"an existing folder (looked for {folder})") from error


def _delta(reader: Reader, source: DeltaSource, home: Path) -> DataFrame:
    try:
        rows: DataFrame = reader.format("delta").options(**source.options).load(resolve_place(source.path, home))
    except (PySparkException, JavaError) as error:
        found = store_failure(error, source.path, "source.path", java_message(error))
        if isinstance(found, StoreUnreachable):
            raise found from error
        if isinstance(error, JavaError):
            raise
        raise InvalidSpec("source.path", source.path, f"a Delta table ({java_message(error)})") from error
    nothing = F.lit(None).cast("string")
    return rows.select("*", nothing.alias(RAW), nothing.alias(POSITION), nothing.alias(FAULT))


def kafka_options(source: KafkaSource) -> dict[str, str]:
    """Return all options of Spark's reader, also the secret ones. Raises InvalidSpec for an unset variable."""
    secret = source.options_from_environment.items()
    given = {option.lower() for option in (*source.options, *source.options_from_environment)}
    # no records of aborted transactions
    committed = {} if "kafka.isolation.level" in given else {"kafka.isolation.level": "read_committed"}
    return {
        "startingOffsets": source.starting_offsets,
        **committed,
        **source.options,
        **{option: _environment(f"source.options_from_environment.{option}", name) for option, name in secret},
        "kafka.bootstrap.servers": source.bootstrap_servers,
        "subscribe": source.topic,
        "includeHeaders": "true",
        # offsets that aged out are lost events: the stream must say so, not go on
        "failOnDataLoss": "true",
    }


def _parse_records(
    records: DataFrame, source: KafkaSource, max_event_bytes: int, schema_ids: frozenset[int] | None
) -> DataFrame:
    reader = source.value_schema.content if source.value_schema is not None else ""
    if source.registry is None:
        return parse_records(records, source, max_event_bytes, None, reader)
    variable, field = source.registry.credentials_from_environment, "source.registry.credentials_from_environment"
    login = None if variable is None else _environment(field, variable)
    client = RegistryClient(source.registry, source.encoding, login)
    if source.registry.version is not None:
        _, reader = client.version(source.registry.version)
    writers = find_writers(client, source, schema_ids or (), is_final=schema_ids is None)
    return parse_records(records, source, max_event_bytes, writers, reader)


def _environment(field: str, name: str) -> str:
    if not is_allowed(name, os.environ):
        allowed = ", ".join(read_allowed_patterns(os.environ)) or "no variable"
        raise InvalidSpec(field, name, f"{allowed}. Rename the variable, or ask the operator to add it to {ALLOWED}")
    if (value := os.environ.get(name)) is None:
        raise InvalidSpec(field, name, "the name of a set environment variable")
    return value


def batch_limits(source: Source) -> dict[str, str]:
    """Return options that limit a batch, if ``source`` sets none. A file is never split over batches."""
    if source.format == "socket" or _LIMITS & {option.lower() for option in source.options}:
        return {}
    match source.format:
        case "kafka":
            return {"maxOffsetsPerTrigger": str(RECORDS)}
        case "delta":
            return {"maxBytesPerTrigger": str(COMPRESSED_BYTES)}
        case "files":
            return {"maxBytesPerTrigger": str(COMPRESSED_BYTES if source.encoding == "parquet" else TEXT_BYTES)}


@dataclass(frozen=True, slots=True)
class SourceMemory:
    """Memory that a lineage has of its source.

    ``unreadable``: files that are not read. ``excluded_ranges``: their rows are quarantined. ``schema_ids``: ids in
    values that the registry is asked for, beside those of its subject. None: an unknown id is final. ``erased``: keys
    of the stream whose events are dropped.
    """

    unreadable: tuple[str, ...] = ()
    excluded_ranges: ExcludedRanges = NOTHING_EXCLUDED
    schema_ids: frozenset[int] | None = None
    erased: ErasedKeys = NOBODY_ERASED

    @classmethod
    def of(cls, home: StreamHome, lineage: str | None) -> Self:
        """Read it. Without one it asks for unknown ids. Raises DamagedFile, InvalidSpec, ControlUnreachable."""
        erased = read_erased(home)
        if lineage is None:
            return cls(schema_ids=frozenset(), erased=erased)
        unreadable, ids = tuple(UnreadableFiles.of(home, lineage).uris()), asked_ids(SCHEMA_IDS_FILE.of(home, lineage))
        return cls(unreadable, read_excluded_ranges(home, lineage), ids, erased)


NOTHING_REMEMBERED: Final = SourceMemory()


def read_guarded_source(
    spark: SparkSession, spec: StreamSpec, platform_home: Path, memory: SourceMemory = NOTHING_REMEMBERED
) -> Guarded:
    """Return the guarded rows of the source, by what the lineage remembers of it. Raises InvalidSpec for a misfit."""
    limit, ids = spec.rules.max_event_bytes, memory.schema_ids
    rows = read_source(spark, spec.source, platform_home, limit, stream=True, schema_ids=ids)
    rows = mark_excluded(drop_files(rows, memory.unreadable), memory.excluded_ranges, spec.source.format)
    return replace(guard(rows, spec), erased=memory.erased)


def mark_excluded(rows: DataFrame, excluded_ranges: ExcludedRanges, source: str) -> DataFrame:
    """Mark ``rows`` of an excluded range by their fault. Without one, the same object leaves the query as it is."""
    if not excluded_ranges:
        return rows
    if source == "delta":  # its stream has no column of metadata
        rows = rows.withColumn(POSITION, F.input_file_name())
    # a file's name in Spark's metadata column, and in ``input_file_name``
    files = dict.fromkeys(form for uri in excluded_ranges.files for form in (uri, re.sub("^file:/", "file:///", uri)))
    of_files = [F.col(POSITION).isin(*files)] if files else []
    held = reduce(operator.or_, [*of_files, *map(_match_records, excluded_ranges.records)])
    return rows.withColumn(FAULT, F.when(held, F.lit(QuarantineReason.EXCLUDED.value)).otherwise(F.col(FAULT)))


def _match_records(records: Records) -> Column:
    offset = F.substring_index(POSITION, "-", -1)
    of_partition = F.col(POSITION) == F.concat(F.lit(f"{records.topic}-{records.partition}-"), offset)
    number = offset.cast("bigint")
    return of_partition & (number >= records.first) & (number < records.end)
