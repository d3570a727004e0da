"""The batches of a log as the files that a stream reads: events as JSON, the rest as punctuations."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.rules import NEVER_MS, Clock, SessionRules
from sessionizer.core.wire import rows
from sessionizer.core.wire.codec import decode
from sessionizer.core.wire.schema import Payload
from sessionizer.home.data_files import list_names
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.source import read_guarded_source
from sessionizer.spark.query.assembly import session_query
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.write import Sinks
from sessionizer.stream_spec.document.names import format_duration
from sessionizer.stream_spec.document.stream import StreamSpec
from support.expected.checkpoint_log import CheckpointLog, MicroBatch
from support.places import opened
from support.streams.strategies import PAYLOAD_COLUMNS, Log

COLUMNS = "key string, client string, at_ms bigint, event_id string, closes boolean, timeout_ms bigint, " + ", ".join(
    f"{name} {kind}" for name, kind in PAYLOAD_COLUMNS.items()
)
MAPPING = {
    "key": "key",
    "client": "client",
    "event_time": "timestamp_millis(at_ms)",
    "event_id": "event_id",
    "closes": "closes",
    "timeout_ms": "timeout_ms",
    "payload": {name: name for name in PAYLOAD_COLUMNS},
}


def batches_that_bring_something(log: Log) -> list[Batch]:
    """The others leave no file behind."""
    return [batch for batch in log.batches if batch.events or batch.floor_ms is not None or batch.timeout_changes]


class Feed:
    """Writes batches, one at a time, to ``events`` under an empty folder and ``punctuations`` there or in ``data``."""

    def __init__(self, batches: list[Batch], home: Path, data: DataPath | None = None) -> None:
        self.events_folder = home / "events"
        self.punctuations: DataPath = (data or home) / "punctuations"
        self.events_folder.mkdir()
        opened(self.punctuations).mkdir()
        self._batches = batches
        self._told: dict[str, Batch] = {}
        self.written = 0

    @property
    def exhausted(self) -> bool:
        return self.written == len(self._batches)

    @property
    def names(self) -> set[str]:
        return set(self._told)

    def write_next(self) -> None:
        """Write the next batch: its events as two files where there are several, its punctuations as one each."""
        batch = self._batches[self.written]
        half = (len(batch.events) + 1) // 2
        self._write_events("a", batch.events[:half])
        self._write_events("b", batch.events[half:])
        if batch.floor_ms is not None:
            self._punctuate(Batch((), 0, floor_ms=batch.floor_ms), self._announce_floor)
        if batch.timeout_changes:
            self._punctuate(Batch((), 0, timeout_changes=batch.timeout_changes), self._announce_timeouts)
        self.written += 1

    def batch_of(self, files: Iterable[str], arrived_at_ms: int) -> Batch:
        told = [self._told[file] for file in sorted(files)]
        floors = [part.floor_ms for part in told if part.floor_ms is not None]
        return Batch(
            events=tuple(chain.from_iterable(part.events for part in told)),
            arrived_at_ms=arrived_at_ms,
            floor_ms=max(floors, default=None),
            timeout_changes={client: ms for part in told for client, ms in part.timeout_changes.items()},
        )

    def _write_events(self, part: str, events: tuple[Event, ...]) -> None:
        """A file is complete before Spark can see its name."""
        if events:
            name = f"{self.written:03}-{part}.json"
            hidden = self.events_folder / f".{name}"
            hidden.write_text("\n".join(json.dumps(source_row(event)) for event in events))
            self._told[name] = Batch(events, 0)
            hidden.rename(self.events_folder / name)

    def _punctuate(self, told: Batch, announce: Callable[[Batch], None]) -> None:
        before = set(self._punctuations_there())
        announce(told)
        (written,) = set(self._punctuations_there()) - before
        self._told[written] = told

    def _punctuations_there(self) -> list[str]:
        return [name for name in list_names(self.punctuations) if name.endswith(".json")]

    def _announce_floor(self, told: Batch) -> None:
        if told.floor_ms == NEVER_MS:
            punctuation.drain(self.punctuations)
        elif told.floor_ms is not None:
            punctuation.move_watermark(self.punctuations, told.floor_ms)

    def _announce_timeouts(self, told: Batch) -> None:
        punctuation.change_timeouts(self.punctuations, told.timeout_changes)


def source_row(event: Event) -> dict[str, object]:
    payload = dict(zip(PAYLOAD_COLUMNS, event.payload, strict=True))
    return {
        "key": event.key,
        "client": event.client,
        "at_ms": event.event_time_ms,
        "event_id": event.event_id,
        "closes": event.closes,
        "timeout_ms": event.timeout_ms,
        **payload,
    }


PATIENCE_S = 180


class Pace(Enum):
    """When a batch is written or, after the last, what is done before the query is left alone."""

    AT_ONCE = auto()
    """While the batch before it still runs, so that Spark takes it up next."""
    IN_QUIET = auto()
    """When the batch before it is committed, and whatever batch without data Spark wants after it."""
    AFTER_RESTART = auto()
    """When the query has been stopped and is about to be started again."""
    AFTER_REPLAY = auto()
    """When the query was killed between what a batch emitted and its commit: that batch runs again first."""


RESTARTS = (Pace.AFTER_RESTART, Pace.AFTER_REPLAY)


@dataclass(frozen=True, slots=True)
class Setting:
    """How a log is streamed. ``paces``: one for each batch that brings something but the first, one for the end."""

    key_groups: int
    emit_every_ms: int
    paces: tuple[Pace, ...]


@dataclass(frozen=True, slots=True)
class Emitted:
    """What one run of a micro-batch emitted: the rows of each table, and how many duplicates it dropped."""

    of_table: dict[str, list[Row]]
    repeated: int


@dataclass(frozen=True, slots=True)
class Streamed:
    """What the query made of a log.

    ``batches``: the micro-batches it committed. ``runs``: for each of them, what it emitted each time it ran.
    ``state``: the log of open events of each key group after the last of them.
    """

    batches: list[Batch]
    runs: list[list[Emitted]]
    state: dict[int, list[pa.Table]]
    checkpoint: DataPath

    def rows(self, table: str) -> list[Row]:
        return [row for runs in self.runs for row in runs[-1].of_table.get(table, [])]

    @property
    def repeated(self) -> int:
        return sum(runs[-1].repeated for runs in self.runs)


def stream(spark: SparkSession, log: Log, setting: Setting, home: Path, data: DataPath | None = None) -> Streamed:
    """Stream ``log`` in ``home``, an empty folder, with its checkpoint in ``data``. Raises what the query died of."""
    streaming = _Streaming(spark, log, setting, home, data or home)
    streaming.run()
    return streaming.outcome()


def as_specified(log: Log) -> Log:
    """The log by rules that a spec can say: it knows no delay of zero."""
    return replace(log, rules=replace(log.rules, watermark_delay_ms=max(1, log.rules.watermark_delay_ms)))


def spec_of(rules: SessionRules, setting: Setting) -> StreamSpec:
    return StreamSpec.model_validate(
        {
            "name": "log",
            "source": {"format": "files", "path": "events", "encoding": "json", "columns": COLUMNS},
            "mapping": MAPPING,
            "rules": written_rules(rules, setting.emit_every_ms),
            "key_groups": setting.key_groups,
        }
    )


def written_rules(rules: SessionRules, emit_every_ms: int) -> dict[str, Any]:
    given = {
        "watermark_delay": rules.watermark_delay_ms,
        "gap_timeout": rules.gap_timeout_ms,
        "max_duration": rules.caps.max_duration_ms,
        "emit_every": emit_every_ms or None,
    }
    return {
        "time_mode": rules.clock.value,
        "client_timeouts": {name: format_duration(ms) for name, ms in rules.client_timeouts_ms.items()},
        "max_events": rules.caps.max_events,
        **({} if rules.caps.max_bytes is None else {"max_bytes": rules.caps.max_bytes}),
        **{name: None if ms is None else format_duration(ms) for name, ms in given.items()},
    }


@dataclass(frozen=True, slots=True)
class _MemorySinks(Sinks):
    """The product's sinks, which evaluate a batch before they write it, but into ``written``."""

    written: dict[str, list[Row]] = field(default_factory=dict)

    def _append(self, table: str, frame: DataFrame, batch_id: int) -> None:
        self.written[table] = frame.collect()


class _KilledError(Exception):
    """What a batch dies of whose turn it is to run again."""


class _Streaming:
    """One log on its way through one checkpoint, and as many lives of the query as its paces want."""

    def __init__(self, spark: SparkSession, log: Log, setting: Setting, home: Path, data: DataPath) -> None:
        self._spark, self._home, self._paces = spark, home, setting.paces
        self._spec = spec_of(log.rules, setting)
        self._feed = Feed(batches_that_bring_something(log), home, data)
        self._checkpoint = CheckpointLog(data / "checkpoint")
        self._emitted: defaultdict[int, list[Emitted]] = defaultdict(list)
        self._writing = threading.Lock()
        self._killed_at = 0
        """How much had been written when a batch was last killed: once for each pace is enough."""

    def run(self) -> None:
        self._feed.write_next()
        self._live()
        while not self._feed.exhausted:
            self._lose_commit()
            self._feed.write_next()
            self._live()
        if self._pace in RESTARTS:
            self._lose_commit()
            self._live()

    def outcome(self) -> Streamed:
        committed = self._checkpoint.committed()
        batches = [self._feed.batch_of(batch.files, batch.at_ms) for batch in committed]
        runs = [self._emitted[batch.batch_id] for batch in committed]
        return Streamed(batches, runs, self._read_state(), self._checkpoint.location)

    @property
    def _pace(self) -> Pace:
        return self._paces[self._feed.written - 1]

    def _lose_commit(self) -> None:
        """A batch that was begun and then killed will run again as it is."""
        if self._pace is Pace.AFTER_REPLAY and self._checkpoint.begun() == self._checkpoint.committed():
            self._checkpoint.forget_last_commit()

    def _live(self) -> None:
        """One life of the query: until it must be stopped."""
        owed = {batch.batch_id for batch in self._checkpoint.begun()}
        query = self._start()
        try:
            self._await(query, lambda: owed <= {batch.batch_id for batch in self._checkpoint.committed()})
            self._follow(query)
        finally:
            query.stop()

    def _start(self) -> StreamingQuery:
        guarded = read_guarded_source(self._spark, self._spec, self._home)
        query = session_query(self._spark, self._spec, guarded, self._feed.punctuations)

        def write(emitted: DataFrame, batch_id: int) -> None:
            self._take(emitted, batch_id, query.guarded.payload_fields)

        return query.start(write, self._checkpoint.location, every_ms=0)

    def _take(self, emitted: DataFrame, batch_id: int, payload: Payload) -> None:
        """Runs inside the batch: the next one starts after it, and finds both sources complete."""
        sinks = _MemorySinks("lineage", {}, payload, GuardedAggregates({}, {}), keep_events=True, permit=lambda: None)
        counts = sinks.write(emitted, batch_id)
        self._emitted[batch_id].append(Emitted(sinks.written, counts[rows.REPEATED]))
        with self._writing:
            is_next = not self._feed.exhausted and self._pace is Pace.AT_ONCE
            if is_next and self._all_in(self._checkpoint.begun()):
                self._feed.write_next()
                return
        if self._owes_kill and self._all_in(self._checkpoint.committed()):
            self._killed_at = self._feed.written
            raise _KilledError

    def _follow(self, query: StreamingQuery) -> None:
        self._await_commit(query)
        while not self._feed.exhausted and self._pace not in RESTARTS:
            self._await_quiet(query)
            with self._writing:  # else a batch that has the first file only takes it for all, and writes the next
                self._feed.write_next()
            self._await_commit(query)
        if self._owes_kill:
            self._await(query, lambda: not self._owes_kill and not query.isActive)
        elif self._pace in (Pace.IN_QUIET, Pace.AFTER_REPLAY):
            self._await_quiet(query)

    @property
    def _owes_kill(self) -> bool:
        """Whether a batch must still die, so that what runs again is not up to the machine.

        On arrival Spark runs batches without data for ever, and one of them dies. In event time they come to an end:
        then the last one loses its commit.
        """
        return self._pace is Pace.AFTER_REPLAY and not self._is_in_event_time and self._killed_at < self._feed.written

    def _await_commit(self, query: StreamingQuery) -> None:
        self._await(query, lambda: self._all_in(self._checkpoint.committed()))

    def _await_quiet(self, query: StreamingQuery) -> None:
        """On arrival Spark runs batches without data for ever, in event time only after the watermark has moved."""
        if self._is_in_event_time:
            query.processAllAvailable()
        else:
            self._await(query, lambda: not self._checkpoint.committed()[-1].files)

    @property
    def _is_in_event_time(self) -> bool:
        return self._spec.rules.clock is Clock.EVENT_TIME

    def _all_in(self, batches: list[MicroBatch]) -> bool:
        return self._feed.names <= {name for batch in batches for name in batch.files}

    def _await(self, query: StreamingQuery, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if not query.isActive and not condition():  # the end may be what is waited for
                raise query.exception() or AssertionError("the query ended by itself")
            assert time.monotonic() < deadline, f"nothing happened for {PATIENCE_S} s"
            time.sleep(0.1)

    def _read_state(self) -> dict[int, list[pa.Table]]:
        reader = self._spark.read.format("statestore").option("stateVarName", "log")
        groups = reader.option("flattenCollectionTypes", "false").load(uri_of(self._checkpoint.location))
        return {int(group.key[0]): [decode(entry.blob) for entry in group.list_value] for group in groups.collect()}
