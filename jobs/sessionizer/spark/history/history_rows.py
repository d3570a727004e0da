"""The rows of a history: files, a Delta table, a table read through JDBC, or what the stream's own source has now."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from sessionizer.checkpoint.files import SeenFile, read_seen_files
from sessionizer.checkpoint.log_entries import EVENTS, read_last_commit, read_planned_batch
from sessionizer.control.records.erasure_record import read_erased
from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec, SourceUnreachable
from sessionizer.home.data_files import files_below, newest_version, relative_name, size_of
from sessionizer.home.roots import DataPath, folder_at, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.inspection.inspect import Inspection, inspect
from sessionizer.spark.ingest.file_source.lines import FAULT, POSITION, RAW
from sessionizer.spark.ingest.guard import Guarded, guard
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.state.open_events import reading_state
from sessionizer.spark.state.restores.table_rows import parts_of, state_format
from sessionizer.state.commands.seeds import CHECKPOINT, DATABASE, PASSWORD, SOURCE, HistoryPlace, url_without_secret
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, Source
from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class JdbcTable:
    """A ``table`` in the database at ``url`` (``jdbc:…``), as ``user`` may read it."""

    url: str
    table: str
    user: str | None


def read_jdbc(spark: SparkSession, table: JdbcTable) -> DataFrame:
    """Read the rows as they are now. Raises SourceUnreachable if the database does not answer."""
    options = {"url": table.url, "dbtable": table.table, "fetchsize": "10000"}
    if table.user is not None:
        options |= {"user": table.user, "password": os.environ.get(PASSWORD, "")}
    try:
        return spark.read.format("jdbc").options(**options).load()
    except (PySparkException, JavaError) as error:
        raise SourceUnreachable(f"{table.url} ({table.table})", java_message(error)) from error


@dataclass(frozen=True, slots=True)
class StateRows:
    """A part of the state at ``location`` after ``batch_id``. ``options``: those of Spark's reader."""

    location: str
    batch_id: int
    state_format: int | None
    options: tuple[tuple[str, str], ...]


def state_at(given: str, part: str | None, field: str) -> tuple[HistoryPlace, StateRows]:
    """Return the state in ``given``, or its ``part`` OPERATOR/NAME of several. Raises InvalidSpec, StoreUnreachable."""
    folder = folder_at(given.removeprefix(CHECKPOINT), field)
    found = inspect(folder)
    if found is None or found.checkpoint.committed is None:
        raise InvalidSpec(field, given, f"{CHECKPOINT} and the checkpoint of a query with a committed batch")
    (name, options), batch = _part(found, part), found.checkpoint.committed
    rows = StateRows(uri_of(folder), batch, found.checkpoint.state_format, tuple(options.items()))
    return HistoryPlace("checkpoint", uri_of(folder), f"{name} after batch {batch}"), rows


def _part(found: Inspection, wanted: str | None) -> tuple[str, dict[str, str]]:
    parts = {
        f"{operator.number}/{variable or store}": {**options, "operatorId": str(operator.number)}
        for operator in found.checkpoint.operators.values()
        for store, variable, options in parts_of(operator)
    }
    if wanted is None and len(parts) == 1:
        return next(iter(parts.items()))
    if wanted not in parts:
        raise InvalidSpec("--table", wanted, f"one part of the state: {', '.join(parts) or 'it has none'}")
    return wanted, parts[wanted]


def read_state(spark: SparkSession, state: StateRows) -> DataFrame:
    """Read its rows and keep them, because Spark reads a state by the session's settings. Raises SourceUnreachable."""
    reader = spark.read.format("statestore").option("batchId", state.batch_id).options(**dict(state.options))
    with reading_state(spark), state_format(spark, state.state_format):
        try:
            rows = reader.load(state.location).persist(StorageLevel.DISK_ONLY)
            rows.count()
        except (PySparkException, JavaError) as error:
            raise SourceUnreachable(state.location, java_message(error)) from error
    return rows


Table: TypeAlias = "DeltaSource | JdbcTable | StateRows"
"""A table with rows of any columns, none of which can be malformed."""
Reader: TypeAlias = "Source | JdbcTable | UserQuery"
"""A description of how to read the rows of a history."""
VIEW: Final = "history"
"""Name of the table in a user's query that makes rows of the source from it."""
FIELD: Final = "--history"
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """A position of a source: its ``offset`` as Spark writes it, None for its beginning. For files, those ``seen``."""

    offset: Any | None = None
    seen: tuple[SeenFile, ...] = ()


@dataclass(frozen=True, slots=True)
class UserQuery:
    """The rows that a user's ``query`` makes from those of ``table``, which the query calls ``VIEW``."""

    table: Table
    query: str


def find_history(
    given: str, source: Source, table: str | None = None, user: str | None = None, query: str | None = None
) -> tuple[HistoryPlace, Reader]:
    """Return the history that ``given`` names, and its reader, for a stream whose own source is ``source``.

    A Delta table is read in the version that it has now. ``table`` and ``user`` are of a database. For a checkpoint,
    ``table`` is the part of its state. ``query`` makes rows of the source from those of a table. Raises InvalidSpec if
    there is no such history.
    """
    if given.startswith(CHECKPOINT):
        if query is None:
            allowed = f"a query of {VIEW} that makes rows of the source from rows of the state"
            raise InvalidSpec("--query", None, allowed)
        return _run_user_query(*state_at(given, table, FIELD), query)
    past, reader = _stored_at(given, source, table, user)
    if query is None:
        return past, reader
    if not isinstance(reader, DeltaSource | JdbcTable):
        raise InvalidSpec("--query", query, f"Omit it: {given} has rows of the source, and a query is for a table")
    return _run_user_query(past, reader, query)


def _run_user_query(past: HistoryPlace, table: Table, query: str) -> tuple[HistoryPlace, UserQuery]:
    told = hashlib.sha256(query.encode()).hexdigest()[:_DIGITS]
    return replace(past, version=f"{past.version}, by the query {told}"), UserQuery(table, query)


def _stored_at(
    given: str, source: Source, table: str | None, user: str | None
) -> tuple[HistoryPlace, Source | JdbcTable]:
    if given.startswith(DATABASE):
        if table is None:
            raise InvalidSpec("--table", None, "the name of a table or view, because the history is in a database")
        # a password would be in the list of processes, and be kept
        if (shown := url_without_secret(given)) is not None:
            allowed = f"a URL without a password. Put the password into {PASSWORD} in the environment"
            raise InvalidSpec(FIELD, shown, allowed)
        return HistoryPlace("jdbc", given, f"table {table}"), JdbcTable(given, table, user)
    if table is not None or user is not None:
        raise InvalidSpec("--table", table, f"Omit it, because the history is no database ({DATABASE}…)")
    if given == SOURCE:
        return HistoryPlace(SOURCE, source.format), source
    if (found := find_in_folder(folder_at(given, FIELD), source, FIELD)) is None:
        raise InvalidSpec(FIELD, given, f"a folder of files, a Delta table, or {SOURCE!r}")
    return found


def find_in_folder(folder: DataPath, source: Source, field: str) -> tuple[HistoryPlace, Source] | None:
    """Return the history in ``folder`` and its reader, None without a file. Raises InvalidSpec, StoreUnreachable."""
    if (newest := newest_version(folder)) is not None:
        table = DeltaSource(format="delta", path=uri_of(folder))
        as_it_is = table.model_copy(update={"options": {"versionAsOf": str(newest)}})
        return HistoryPlace("delta", uri_of(folder), f"version {newest}"), as_it_is
    if not (sizes := {relative_name(file, folder): size_of(file) for file in files_below(folder)}):
        return None
    told = hashlib.sha256("\n".join(f"{name} {size}" for name, size in sizes.items()).encode()).hexdigest()
    files = _files(source, uri_of(folder), sizes, field)
    return HistoryPlace(files.encoding, uri_of(folder), f"{count_text(len(sizes), 'file')} {told[:_DIGITS]}"), files


def read_history_rows(spark: SparkSession, spec: StreamSpec, source: Reader, platform_home: Path) -> Guarded:
    """Read the guarded rows of a history that is not the own source, without erased keys. Raises InvalidSpec."""
    erased = read_erased(StreamHome.of(platform_home, spec.name))
    if isinstance(source, JdbcTable | UserQuery):
        as_a_table = spec.model_copy(update={"source": DeltaSource(format="delta", path=VIEW)})
        nothing = F.lit(None).cast("string")
        rows = _rows_of(spark, source).select("*", nothing.alias(RAW), nothing.alias(POSITION), nothing.alias(FAULT))
        guarded = guard(rows, as_a_table).refusing_erased(erased)
        # a database has no versions: rows that are needed twice must be read once
        return replace(guarded, rows=guarded.rows.persist(StorageLevel.DISK_ONLY))
    rows = read_source(spark, source, platform_home, spec.rules.max_event_bytes, stream=False)
    return guard(rows, spec.model_copy(update={"source": source})).refusing_erased(erased)


def _rows_of(spark: SparkSession, source: Table | UserQuery) -> DataFrame:
    match source:
        case UserQuery(table, query):
            _rows_of(spark, table).createOrReplaceTempView(VIEW)
            try:
                # in parentheses it can be nothing but a query
                return spark.sql(f"select * from ({query})")  # noqa: S608  the user who types it may read this
            except PySparkException as error:
                allowed = f"a query of {VIEW} that Spark can run ({java_message(error)})"
                raise InvalidSpec("--query", query, allowed) from error
        case JdbcTable():
            return read_jdbc(spark, source)
        case StateRows():
            return read_state(spark, source)
        case _:
            return spark.read.format("delta").options(**source.options).load(source.path)


def read_to_now(
    spark: SparkSession, spec: StreamSpec, platform_home: Path, scratch: DataPath, take: Callable[[Guarded], None]
) -> HistoryPosition:
    """Give ``take`` all that the source has now as one batch, if any. Return the position. ``scratch``: for Spark."""
    source = spec.source
    if source.format == "kafka":
        source = source.model_copy(update={"starting_offsets": "earliest"})
    rows = read_source(spark, source, platform_home, spec.rules.max_event_bytes, stream=True)
    guarded, erased = guard(rows, spec), read_erased(StreamHome.of(platform_home, spec.name))

    def take_batch(batch: DataFrame, _number: int) -> None:
        take(Guarded(batch, guarded.payload).refusing_erased(erased))

    # in one batch, whatever the source's limits say: the trigger that comes in their place keeps to them
    writer = guarded.rows.writeStream.foreachBatch(take_batch).option("checkpointLocation", uri_of(scratch))
    writer.trigger(once=True).start().awaitTermination()
    if read_last_commit(scratch) is None:
        return HistoryPosition()
    seen = tuple(read_seen_files(scratch, 0)) if spec.source.format == "files" else ()
    return HistoryPosition(read_planned_batch(scratch, 0).ends.get(EVENTS), seen)


def _files(source: Source, folder: str, names: Iterable[str], field: str) -> FilesSource:
    """Describe the files in the encoding of the stream's source, or as Parquet if their names say so."""
    encoding = "parquet" if any(name.endswith(".parquet") for name in names) else getattr(source, "encoding", "parquet")
    if encoding == "text":
        return FilesSource(format="files", path=folder, encoding="text")
    if (columns := getattr(source, "columns", None)) is None:
        allowed = f"a Delta table, because a source of format {source.format} does not say which columns"
        raise InvalidSpec(field, folder, allowed)
    options = source.options if isinstance(source, FilesSource) and source.encoding == encoding else {}
    found = {"format": "files", "path": folder, "encoding": encoding, "columns": columns, "options": options}
    return FilesSource.model_validate(found)
