"""Checks of a source before anything starts: that it exists, may be read, and is the same as before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from sessionizer.causes.table import SCHEMA_CHANGE
from sessionizer.checkpoint.log_entries import EVENTS, list_begun_batches, read_begun_batch, read_planned_batch
from sessionizer.errors import QueryFailed
from sessionizer.home.roots import resolve_place
from sessionizer.launch.driver_environment import plain
from sessionizer.lineage.kept_spec import choose_known_ids, read_source_ids, require_same_source
from sessionizer.spark.ingest.source import check_reachable
from sessionizer.spark.ingest.topics import topic_ids
from sessionizer.spark.internals.delta_log import column_ids, table_id
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.stream_spec.sql_words import NAMES, WordKind, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.source import Source
    from sessionizer.stream_spec.document.stream import StreamSpec

READ_BY_PRESENT_COLUMNS: Final = (
    "spark.databricks.delta.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled"
)
"""Delta's setting to read on after columns were renamed or dropped. Unsafe without ``require_same_columns``."""


def source_ids(spark: SparkSession, stream: str, source: Source, platform: Path) -> dict[str, str]:
    """Ask for the id of each topic, or of the table, by its name in the spec. Files and sockets have none.

    Raises SourceUnreachable, SourceMissing, SourceForbidden.
    """
    check_reachable(source)
    match source.format:
        case "kafka":
            return topic_ids(spark, stream, source)
        case "delta":
            found = _table_id(spark, resolve_place(source.path, platform))
            return {} if found is None else {source.path: found}
        case "files" | "socket":
            return {}


def require_source(spark: SparkSession, home: StreamHome, spec: StreamSpec, lineage: str | None) -> dict[str, str]:
    """Ask for the ids of the source that a driver is about to read.

    ``lineage``: the active one, whose positions must be of these. Raises SourceUnreachable, SourceMissing,
    SourceForbidden, SourceReplaced.
    """
    now = source_ids(spark, spec.name, spec.source, home.platform)
    newest = read_begun_batch(home.checkpoint(lineage)) if lineage else None
    if lineage is not None and newest is not None:
        offset = read_planned_batch(home.checkpoint(lineage), newest).ends.get(EVENTS)
        known = choose_known_ids(read_source_ids(home, lineage), spec.source.model_dump(), offset)
        require_same_source(spec.name, known, now)
    return now


def require_same_columns(
    spark: SparkSession, home: StreamHome, spec: StreamSpec, lineage: str | None
) -> Mapping[tuple[str, ...], str]:
    """Let Delta read on after columns were renamed or dropped that ``spec`` does not use.

    Delta reads each file by the columns that the table has when the query starts. Rows that ``lineage`` has not read
    would be read wrong only if a name of a used column now means another column. Raises QueryFailed then. Returns the
    columns, which each batch must find as they are: empty if the table has no column mapping.
    """
    if spec.source.format != "delta" or plain():
        return {}
    location = resolve_place(spec.source.path, home.platform)
    # the newest batch may not be committed: its rows are then read again
    begun = sorted(list_begun_batches(home.checkpoint(lineage)))[-2:] if lineage else []
    offset = read_planned_batch(home.checkpoint(lineage), begun[0]).ends.get(EVENTS) if lineage and begun else None
    version = int(offset["reservoirVersion"]) if offset else None
    try:
        before, now = column_ids(spark, location, version), column_ids(spark, location)
    except (PySparkException, JavaError):
        return {}  # the query says what is wrong with the log
    if (other := find_other_column(spec, before, now)) is not None:
        detail = f"{other!r} is another column of the source than before version {version}, which is not read yet"
        raise QueryFailed(spec.name, SCHEMA_CHANGE, detail)
    spark.conf.set(READ_BY_PRESENT_COLUMNS, "true")
    return {} if all(path[-1] == name.lower() for path, name in now.items()) else now


def find_other_column(
    spec: StreamSpec, before: Mapping[tuple[str, ...], str], now: Mapping[tuple[str, ...], str]
) -> str | None:
    """Return a column that the mapping may use, and whose name has another column behind it ``now``."""
    mapping = spec.mapping.model_dump(exclude={"payload"}, exclude_none=True)
    words = [word for sql in (*mapping.values(), *spec.mapping.payload.values()) for word in words_of(str(sql))]
    used = {word.name for word in words if word.kind in NAMES}
    uses_any = any(word.kind is WordKind.UNKNOWN for word in words)
    changed = (path for path, name in before.items() if now.get(path, name) != name)
    return next((".".join(path) for path in changed if uses_any or path[0] in used), None)


def _table_id(spark: SparkSession, location: str) -> str | None:
    """Return None for a table that cannot be read. The reader that comes next says why."""
    try:
        return table_id(spark, location)
    except (PySparkException, JavaError):
        return None
