"""The rows of a history: files, a Delta table, a table read through JDBC, or what the stream's own source has now."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.storagelevel import StorageLevel

from sessionizer.errors import InvalidSpec
from sessionizer.home.data_files import entries_in, files_below, relative_name
from sessionizer.home.data_root import folder_at, uri_of
from sessionizer.lineage.checkpoint import EVENTS, SeenFile, committed_batch, planned_batch, seen_files
from sessionizer.spark.history.jdbc_rows import SCHEME, JdbcTable, read_jdbc
from sessionizer.spark.ingest.guard import Guarded, guard
from sessionizer.spark.ingest.source import read_source
from sessionizer.state.savepoints.sink_versions import COMMIT
from sessionizer.state.seeds.seed_plan import SOURCE, Past
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.data_root import DataPath
    from sessionizer.stream_spec.document.source import Source
    from sessionizer.stream_spec.document.stream import StreamSpec

Reader: TypeAlias = "Source | JdbcTable"
"""What says how the rows of a history are read."""
FIELD: Final = "--history"
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Place:
    """Where a source stands: its ``offset`` as Spark writes it, None for its beginning; of files those ``seen``."""

    offset: Any | None = None
    seen: tuple[SeenFile, ...] = ()


def past_at(given: str, source: Source, table: str | None = None, user: str | None = None) -> tuple[Past, Reader]:
    """The history that ``given`` names, and how it is read; for a stream whose own source is ``source``.

    A Delta table is read in the version that it has now. ``table`` and ``user``: of a database. Raises InvalidSpec
    where there is none.
    """
    if given.startswith(SCHEME):
        if table is None:
            raise InvalidSpec("--table", None, "the name of a table or view, as the history is in a database")
        found_there = JdbcTable(given, table, user)
        found_there.require_no_secret(FIELD)
        return Past("jdbc", given, f"table {table}"), found_there
    if table is not None or user is not None:
        raise InvalidSpec("--table", table, f"nothing, as the history is no database ({SCHEME}…)")
    if given == SOURCE:
        return Past(SOURCE, source.format), source
    return _in_folder(folder_at(given, FIELD), given, source)


def _in_folder(folder: DataPath, given: str, source: Source) -> tuple[Past, Source]:
    commits = [COMMIT.fullmatch(entry.name) for entry in entries_in(folder / "_delta_log")]
    versions = [int(found[1]) for found in commits if found is not None]
    if versions:
        newest = max(versions)
        as_it_is = DeltaSource(format="delta", path=uri_of(folder), options={"versionAsOf": str(newest)})
        return Past("delta", uri_of(folder), f"version {newest}"), as_it_is
    sizes = {relative_name(file, folder): file.stat().st_size for file in files_below(folder)}
    if not sizes:
        raise InvalidSpec(FIELD, given, f"a folder of files, a Delta table, or {SOURCE!r}")
    told = hashlib.sha256("\n".join(f"{name} {size}" for name, size in sizes.items()).encode()).hexdigest()
    files = _files(source, uri_of(folder), sizes)
    return Past(files.encoding, uri_of(folder), f"{len(sizes):,} files {told[:_DIGITS]}"), files


def rows_of_past(spark: SparkSession, spec: StreamSpec, source: Reader, platform_home: Path) -> Guarded:
    """The guarded rows of a history that is not the stream's own source. Raises InvalidSpec where they do not fit."""
    if isinstance(source, JdbcTable):
        as_a_table = spec.model_copy(update={"source": DeltaSource(format="delta", path=source.url)})
        guarded = guard(spark, read_jdbc(spark, source), as_a_table)
        # a database has no versions: what is looked at twice must be read once
        return replace(guarded, rows=guarded.rows.persist(StorageLevel.DISK_ONLY))
    rows = read_source(spark, source, platform_home, spec.rules.max_event_bytes, stream=False)
    return guard(spark, rows, spec.model_copy(update={"source": source}))


def read_to_now(
    spark: SparkSession, spec: StreamSpec, platform_home: Path, scratch: DataPath, take: Callable[[Guarded], None]
) -> Place:
    """Give ``take`` all that the stream's source has now, as one batch, and say where the source stands after it.

    ``scratch``: an empty folder, for Spark's notes. A source that has nothing yet gives nothing to ``take``.
    """
    rows = read_source(spark, _from_its_beginning(spec.source), platform_home, spec.rules.max_event_bytes, stream=True)
    guarded = guard(spark, rows, spec)

    def take_batch(batch: DataFrame, _number: int) -> None:
        guarded.clock.set_to_batch()
        take(Guarded(batch, guarded.payload, guarded.clock))

    # in one batch, whatever the source's limits say: the trigger that comes in their place keeps to them
    writer = guarded.rows.writeStream.foreachBatch(take_batch).option("checkpointLocation", uri_of(scratch))
    writer.trigger(once=True).start().awaitTermination()
    if committed_batch(scratch) is None:
        return Place()
    seen = tuple(seen_files(scratch, 0)) if spec.source.format == "files" else ()
    return Place(planned_batch(scratch, 0).ends.get(EVENTS), seen)


def _from_its_beginning(source: Source) -> Source:
    """Where a stream of it would begin is another question."""
    return source.model_copy(update={"starting_offsets": "earliest"}) if source.format == "kafka" else source


def _files(source: Source, folder: str, names: Iterable[str]) -> FilesSource:
    """As the stream's source has them; Parquet where they are called so."""
    given = source if isinstance(source, FilesSource) else None
    encoding = "parquet" if any(name.endswith(".parquet") for name in names) else getattr(source, "encoding", "parquet")
    if encoding == "text":
        return FilesSource(format="files", path=folder, encoding="text")
    columns = getattr(source, "columns", None)
    if columns is None:
        raise InvalidSpec(
            FIELD, folder, f"a Delta table: a source of format {source.format} does not say which columns"
        )
    options = given.options if given is not None and given.encoding == encoding else {}
    found = {"format": "files", "path": folder, "encoding": encoding, "columns": columns, "options": options}
    return FilesSource.model_validate(found)
