"""Our own query, built exactly as in the driver: a stream spec, ``session_query`` and ``Sinks``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from sessionizer.spark.driver.housekeeping import Rehearsal
from sessionizer.spark.ingest.source import read_guarded_source
from sessionizer.spark.query.assembly import session_query
from sessionizer.spark.sinks import table_shapes, tables
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.write import Sinks
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer_bench.data.dataset import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sessionizer_bench.contestants.race import Race


@dataclass(slots=True)
class Diary:
    """Notes on each batch's foreachBatch: ms of the whole and of each table's write, open sessions after it."""

    writing_ms: dict[str, float] = field(default_factory=dict)
    open_of_group: dict[int, int] = field(default_factory=dict)
    batches: dict[int, dict[str, Any]] = field(default_factory=dict)

    def close_batch(self, batch_id: int, whole_ms: float) -> None:
        """Note the batch that ended, which took ``whole_ms`` in foreachBatch."""
        written, self.writing_ms = self.writing_ms, {}
        self.batches[batch_id] = {
            "evaluate_ms": round(whole_ms - sum(written.values())),
            "write_ms": {table: round(took) for table, took in written.items()},
            "open_sessions": sum(self.open_of_group.values()),
        }


@dataclass(frozen=True, slots=True)
class TimedSinks(Sinks):
    """The product's sinks with a timer around each write."""

    diary: Diary = field(default_factory=Diary)

    def _append(self, table: str, frame: DataFrame, batch_id: int) -> int | None:
        started = time.perf_counter()
        version = Sinks._append(self, table, frame, batch_id)  # noqa: SLF001  our own base class
        self.diary.writing_ms[table] = (time.perf_counter() - started) * 1000
        return version


def stream_spec(race: Race, name: str = "benchmark") -> StreamSpec:
    """Return the spec of the stream over the benchmark's files."""
    return StreamSpec.model_validate(spec_values(race, name))


def spec_values(race: Race, name: str) -> dict[str, Any]:
    """Return the spec as the values of its YAML file."""
    return {
        "name": name,
        "source": {
            "format": "files",
            "path": str(race.files),
            "encoding": "parquet",
            "columns": COLUMNS,
            "options": {"maxFilesPerTrigger": str(race.files_per_batch)},
        },
        "mapping": {
            "key": "user_id",
            "event_time": "event_time",
            "event_id": "event_id",
            "closes": "is_last",
            "timeout_ms": "timeout_s * 1000L",
            "payload": {"data": "data"},
        },
        "rules": {
            "watermark_delay": f"{race.watermark_delay_s} seconds",
            "max_event_bytes": 16_384,  # an event has a few hundred
            "emit_every": race.emit_every_s and f"{race.emit_every_s} seconds",
        },
        "key_groups": race.key_groups,
    }


def start(spark: SparkSession, race: Race, *, change_feed: bool = False) -> tuple[StreamingQuery, Diary]:
    """Start the query, and return it with its diary, which gets each batch at its end."""
    spec, punctuations = stream_spec(race), race.folder / "punctuations"
    punctuations.mkdir()
    query = session_query(spark, spec, read_guarded_source(spark, spec, race.folder), punctuations)
    payload = query.guarded.payload_fields
    shapes = (
        table_shapes.sessions_shape(spec, payload, StructType()),
        table_shapes.quarantine_shape(),
        table_shapes.late_events_shape(query.guarded.payload),
    )
    locations = {shape.name: str(race.table.with_name(shape.name)) for shape in shapes}
    for shape in shapes:
        tables.ensure_table(spark, shape, locations[shape.name])
        if change_feed:
            feed = f"SET TBLPROPERTIES ('{tables.CHANGE_FEED}' = 'true')"
            spark.sql(f"ALTER TABLE delta.`{locations[shape.name]}` {feed}")
    diary, rehearsal = Diary(), Rehearsal(spark, race.folder / "rehearsal")
    sinks = TimedSinks(
        "benchmark", locations, payload, GuardedAggregates({}, {}), spec.sink.keep_events, lambda: None, diary=diary
    )

    def write(emitted: DataFrame, batch_id: int) -> None:
        started = time.perf_counter()
        counts = sinks.write(emitted, batch_id)
        merged = {group: told.sessions for group, told in counts.open_in_groups if told.merged}
        diary.open_of_group |= merged
        diary.close_batch(batch_id, (time.perf_counter() - started) * 1000)
        # as a driver that stays does
        if race.live_s and rehearsal.is_due(len(diary.batches)):
            rehearsal.begin()

    return query.start(write, race.checkpoint, race.every_ms), diary
