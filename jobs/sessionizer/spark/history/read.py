"""A stream's history on disk, through its mapping and the guard, to sessions at once: ``sessionizer history``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sessionizer.core.wire import schema
from sessionizer.errors import InvalidSpec
from sessionizer.home.roots import resolve_place
from sessionizer.spark.history.sessionize import open_events, sessionize_history
from sessionizer.spark.ingest.guard import EVENT_TIME, REASON, guard
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.ingest.timeout_table import check_timeout_table, read_timeouts
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.sinks.examine import types_of_measures
from sessionizer.spark.sinks.guarded_aggregates import GuardedAggregates
from sessionizer.spark.sinks.measures import add_measures
from sessionizer.stream_spec.document.names import SESSION_FACTS
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.core.definition.rules import SessionRules
    from sessionizer.stream_spec.document.source import Source
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class History:
    """Guarded rows of a history (``reason`` null: an event) and the rules that hold for all of it."""

    spec: StreamSpec
    rules: SessionRules
    rows: DataFrame
    payload: tuple[str, ...]

    def counts(self) -> dict[str | None, int]:
        """Count rows by the reason of their refusal, None for events. Reads the whole history."""
        return {row[REASON]: row["count"] for row in self.rows.groupBy(REASON).count().collect()}

    def sessions(self, until_ms: int | None) -> DataFrame:
        """Return the columns of the table ``sessions``, without those that name a row's writer. Raises InvalidSpec."""
        found = sessionize_history(self._events(), self.rules, until_ms=until_ms)
        measured = add_measures(found, GuardedAggregates.of(found.sparkSession, self.spec.measures))
        dated = measured.withColumn("date", F.to_date("started_at"))
        kept = ["events"] if self.spec.sink.keep_events else []
        return dated.select(*SESSION_FACTS, *self.spec.measures, *kept)

    def open_events(self, until_ms: int | None) -> DataFrame:
        """Return the events of the sessions that are not final at ``until_ms``, payload columns last."""
        return open_events(self._events(), self.rules, until_ms=until_ms)

    def _events(self) -> DataFrame:
        payload = [F.col(f"{schema.PAYLOAD}_{name}").alias(name) for name in self.payload]
        own_time = schema.CLOCK if self.rules.clock.has_watermark else schema.TIE
        return self.rows.where(F.col(REASON).isNull()).select(
            schema.KEY,
            schema.CLIENT,
            F.timestamp_millis(own_time).alias(EVENT_TIME),
            schema.EVENT_ID,
            schema.CLOSES,
            schema.TIMEOUT,
            *([F.struct(*payload).alias(schema.PAYLOAD)] if payload else []),
        )


def read_history(spark: SparkSession, spec: StreamSpec, folder: Path, platform_home: Path) -> History:
    """Read the history in ``folder``: files as the stream's source has them, or a Delta table of its columns.

    Raises InvalidSpec if the spec does not fit it.
    """
    source = source_of_history(spec.source, folder)
    rows = read_source(spark, source, platform_home, spec.rules.max_event_bytes, stream=False)
    guarded = guard(spark, rows, spec)
    types_of_measures(spark, spec, guarded)
    rules = rules_in_force(spec, client_timeouts(spark, spec, platform_home))
    return History(spec, rules, guarded.rows, tuple(guarded.payload.names))


def source_of_history(source: Source, folder: Path) -> FilesSource | DeltaSource:
    """Return a source that reads ``folder`` in the form of ``source``. Raises InvalidSpec."""
    if (folder / "_delta_log").is_dir():
        return DeltaSource(format="delta", path=str(folder))
    if source.format == "files":
        return source.model_copy(update={"path": str(folder)})
    if source.format == "delta":
        raise InvalidSpec("--input", str(folder), "a Delta table, because source.format is delta")
    if source.encoding not in ("json", "text"):
        raise InvalidSpec("--input", str(folder), f"a Delta table, because source.encoding is {source.encoding}")
    return FilesSource(format="files", path=str(folder), encoding=source.encoding, columns=source.columns)


def rules_in_force(spec: StreamSpec, timeouts_ms: Mapping[str, int]) -> SessionRules:
    """Return the stream's rules, with the timeouts that its table of clients has now."""
    rules = rules_of(spec)
    return replace(rules, client_timeouts_ms={**rules.client_timeouts_ms, **timeouts_ms})


def client_timeouts(spark: SparkSession, spec: StreamSpec, platform_home: Path) -> dict[str, int]:
    """Read the timeouts (ms) in the table of clients, none if the spec names no table. Raises InvalidSpec."""
    if spec.rules.client_timeouts_table is None:
        return {}
    location = resolve_place(spec.rules.client_timeouts_table, platform_home)
    check_timeout_table(spark, location)
    return read_timeouts(spark, location)
