"""Checks of a source before anything starts: that it exists, may be read, and is the same as before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from sessionizer.checkpoint.batch_logs import read_begun_batch, read_planned_batch
from sessionizer.checkpoint.names import EVENTS
from sessionizer.home.platform_home import resolve_place
from sessionizer.lineage.source_ids import choose_known_ids, read_source_ids, require_same_source
from sessionizer.spark.ingest.source import check_reachable
from sessionizer.spark.ingest.topics import topic_ids
from sessionizer.spark.internals.delta_log import table_id
from sessionizer.spark.internals.java_errors import JavaError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.source import Source
    from sessionizer.stream_spec.document.stream import StreamSpec


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


def _table_id(spark: SparkSession, location: str) -> str | None:
    """Return None for a table that cannot be read. The reader that comes next says why."""
    try:
        return table_id(spark, location)
    except (PySparkException, JavaError):
        return None
