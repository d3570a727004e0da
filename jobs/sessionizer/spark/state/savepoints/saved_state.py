"""State of a savepoint in Spark: its canonical tables, written and read, and the counts of its events.

A canonical one yields the logs of its key groups, or its rows if this release keeps blobs in another form. A native one
is a checkpoint of one batch: its state is read by Spark's own reader, from a copy that names the place where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.checkpoint.files import SeenFile, read_seen_files
from sessionizer.core.definition.rules import SessionRules
from sessionizer.core.key_group.contents import would_be_schema, would_be_sessions
from sessionizer.core.key_group.merging import ends_of_open
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import KEY_GROUP, log_of
from sessionizer.core.wire.codec import decode_log
from sessionizer.core.wire.rows import INITIAL, REVISION
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.data_files import remove_tree
from sessionizer.home.local_files import close_to_others
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import (
    CHECKPOINT,
    GROUP_LOGS,
    OPEN_EVENTS,
    SEEN_FILES,
    TIMEOUTS,
    SavepointHome,
    StreamHome,
)
from sessionizer.migrations.graph import revisions_before_head
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.sinks.write import few_blobs_at_a_time
from sessionizer.spark.state.open_events import (
    FirstLog,
    KeptState,
    bring_to_head,
    first_log_of,
    iterate_logs,
    label_groups,
    log_blobs,
    log_row,
    open_event_schema,
    open_events_of,
    open_payload,
    read_state_timeouts,
    reading_state,
    whole_logs,
)
from sessionizer.state.lineages.committed_batch import FILES
from sessionizer.state.savepoints.manifest import Counts, Manifest, SavepointKind, read_saved_spec
from sessionizer.state.savepoints.savepoint_writer import install, require_same_line

_BLOB_OF_LOG: Final = ("key_group", "number", "of", "blob")


def savepoint_table(spark: SparkSession, home: SavepointHome, part: str) -> DataFrame:
    """Read a table of a canonical savepoint."""
    return spark.read.format("delta").load(uri_of(home.part(part)))


def has_table(manifest: Manifest, part: str) -> bool:
    """Whether a savepoint has the table. Older ones have no logs, and those before an upgrade have no rows."""
    return any(file.path.startswith(f"{part}/") for file in manifest.files)


def read_saved_logs(spark: SparkSession, home: SavepointHome, key_groups: int) -> DataFrame:
    """Read the logs of the ``key_groups`` of a canonical savepoint, by ``rows.INITIAL``."""
    blobs = savepoint_table(spark, home, GROUP_LOGS).select(*_BLOB_OF_LOG)
    return label_groups(blobs, key_groups)


def saved_events(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> DataFrame:
    """Read the open events of a canonical savepoint, by ``canonical_schema`` of the revision that made it.

    Evaluate it in ``few_blobs_at_a_time``, because without rows the events are opened from the logs.
    """
    if has_table(manifest, OPEN_EVENTS):
        return savepoint_table(spark, home, OPEN_EVENTS)
    groups, shape = manifest.key_groups, open_event_schema(manifest.kept)
    return open_events_of(whole_logs(read_saved_logs(spark, home, groups), groups), groups, shape)


def saved_timeouts(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> dict[str, int]:
    """Read the clients' timeouts (ms) that were changed before a canonical savepoint."""
    if manifest.counts is not None and not manifest.counts.timeouts:
        return {}  # most streams change none, and to read an empty table takes a second
    return {row.client: row.timeout_ms for row in savepoint_table(spark, home, TIMEOUTS).collect()}


def open_sessions(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> DataFrame:
    """Return the sessions that are open in a savepoint, by ``would_be_schema``, with their key group."""
    payload = open_payload(manifest.kept)
    rules = rules_of(read_saved_spec(home, manifest))
    shape = from_arrow_schema(would_be_schema(payload), prefer_timestamp_ntz=False)
    events = saved_events(spark, home, manifest)
    return events.groupBy(KEY_GROUP).applyInArrow(_sessions(rules, payload), shape)


def _sessions(rules: SessionRules, payload: schema.Payload) -> Callable[[pa.Table], pa.Table]:
    def sessions(rows: pa.Table) -> pa.Table:
        shape = would_be_schema(payload)
        return pa.concat_tables([shape.empty_table(), *would_be_sessions(log_of(rows), rules, payload)])

    return sessions


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved state. ``open_events``: as logs, as a state keeps them, or by ``canonical_schema``.

    ``timeouts``: changed ones (ms).
    """

    open_events: DataFrame | KeptState | FirstLog
    timeouts: Mapping[str, int]


@contextmanager
def read_saved_state(
    spark: SparkSession, stream: StreamHome, savepoint: SavepointHome, manifest: Manifest, key_groups: int
) -> Iterator[SavedState]:
    """Read the state in a complete savepoint for a lineage of ``key_groups``, for as long as the context lasts.

    For a native one a copy is in the ``stream``'s data meanwhile. A copy that a kill left there is replaced. Raises
    UnusableSavepoint for one of another line of Spark or an unknown revision, UnwritablePath, DiskFull.
    """
    _require_known(manifest)
    if manifest.kind is SavepointKind.CANONICAL:
        events = _open_events(spark, savepoint, manifest, key_groups)
        yield SavedState(events, saved_timeouts(spark, savepoint, manifest))
        return
    require_same_line(manifest, spark.version)
    copy = stream.unpacked / savepoint.id
    try:
        install(savepoint, manifest, copy)
        close_to_others(stream.unpacked)
        shape = open_event_schema(manifest.kept)
        state = KeptState(copy, manifest.batch_id, manifest.key_groups, shape, manifest.revision)
        with reading_state(spark):
            timeouts = read_state_timeouts(spark, state)
        yield SavedState(state, timeouts)
    finally:
        remove_tree(copy)


def _open_events(
    spark: SparkSession, savepoint: SavepointHome, manifest: Manifest, key_groups: int
) -> DataFrame | FirstLog:
    """Return the logs if the lineage can take them as they are, else the events."""
    if has_table(manifest, GROUP_LOGS) and manifest.revision == REVISION and manifest.key_groups == key_groups:
        return first_log_of(read_saved_logs(spark, savepoint, key_groups), key_groups)
    found = saved_events(spark, savepoint, manifest)
    return bring_to_head(found, manifest.revision, open_event_schema(manifest.kept))


def _require_known(manifest: Manifest) -> None:
    """Raise UnusableSavepoint if no revision leads from the savepoint to the head."""
    if manifest.revision not in (REVISION, *revisions_before_head()):
        cause = f"its state has revision {manifest.revision}, and this release reads {REVISION}"
        raise UnusableSavepoint(manifest.id, f"{cause}. Restore it with the release that made it")


def read_saved_files(spark: SparkSession, savepoint: SavepointHome, manifest: Manifest) -> tuple[SeenFile, ...]:
    """Return the files that the source had read after the batch, if it is a folder of files."""
    if manifest.position.format != FILES:
        return ()
    if manifest.kind is SavepointKind.NATIVE:
        return tuple(read_seen_files(savepoint.part(CHECKPOINT), manifest.batch_id))
    rows = savepoint_table(spark, savepoint, SEEN_FILES).collect()
    return tuple(SeenFile(row.uri, row.changed_at_ms) for row in rows)


_OF_GROUP: Final = pa.schema([(name, pa.int64()) for name in ("events", "keys", "sessions", "due_ms")])
_MAKES: Final = "makes"


class Held(NamedTuple):
    """Counts of open events: their number, their keys, groups and sessions, and the earliest end."""

    events: int
    keys: int
    groups: int
    sessions: int
    earliest_due_ms: int | None

    @classmethod
    def of(cls, totals: Mapping[str, Any]) -> Held:
        """Read the counts from a row of ``_totals``."""
        return cls(*(totals[name] for name in cls._fields))

    def counts(self, timeouts: int, seen_files: int) -> Counts:
        """Add the counts of the other parts of a savepoint."""
        return Counts(self.events, self.keys, self.groups, self.sessions, timeouts, seen_files)


def count_state_logs(spark: SparkSession, state: KeptState, rules: SessionRules) -> DataFrame:
    """Return ``count_logs`` of a state. Evaluate it in ``reading_state``."""
    return count_logs(log_blobs(spark, state), rules)


def count_logs(logs: DataFrame, rules: SessionRules) -> DataFrame:
    """Return logs by ``rows.INITIAL``, and ``makes``: the counts of a log, in the row of its first blob.

    ``logs``: in the form of ``log_blobs``.
    """
    shape = f"{INITIAL}, {_MAKES} {from_arrow_schema(_OF_GROUP).simpleString()}"
    return logs.mapInArrow(_log_maker(rules), shape)


def sum_counts(logs: DataFrame) -> Held:
    """Sum up the counts of the logs of ``count_state_logs``."""
    return _held_together(logs.select(f"{_MAKES}.*"))


class Recount(NamedTuple):
    """The counts of a savepoint, recounted from one of its tables of open events and the other parts."""

    counts: Counts
    earliest_due_ms: int | None


def recount(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> dict[str, Recount]:
    """Count a canonical savepoint by each of its tables of open events, in the way it was counted when it was made."""
    timeouts, seen_files = (savepoint_table(spark, home, part).count() for part in (TIMEOUTS, SEEN_FILES))
    rules, held, shape = rules_of(read_saved_spec(home, manifest)), dict[str, Held](), from_arrow_schema(_OF_GROUP)
    if has_table(manifest, OPEN_EVENTS):
        # a key group is opened whole, as in a merge
        of_groups = savepoint_table(spark, home, OPEN_EVENTS).groupBy(KEY_GROUP).applyInArrow(_counter(rules), shape)
        held[OPEN_EVENTS] = _held_together(of_groups)
    if has_table(manifest, GROUP_LOGS):
        logs = whole_logs(read_saved_logs(spark, home, manifest.key_groups), manifest.key_groups)
        with few_blobs_at_a_time(spark):
            held[GROUP_LOGS] = _held_together(logs.mapInArrow(_log_counter(rules), shape))
    return {part: Recount(each.counts(timeouts, seen_files), each.earliest_due_ms) for part, each in held.items()}


def _log_maker(rules: SessionRules) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def number_and_count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for label, blobs in iterate_logs(batches):
            makes = pa.array([_counts(decode_log(blobs), rules)], pa.struct(_OF_GROUP))
            for number, blob in enumerate(blobs):
                row = log_row(label, number, len(blobs), blob)
                yield row.append_column(_MAKES, pa.nulls(1, makes.type) if number else makes)

    return number_and_count


def _held_together(of_groups: DataFrame) -> Held:
    total = of_groups.agg(*_totals()).first()
    assert total is not None  # noqa: S101  an aggregate of all has one row
    return Held.of(total.asDict())


def _log_counter(rules: SessionRules) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, blobs in iterate_logs(batches):
            yield pa.RecordBatch.from_pylist([_counts(decode_log(blobs), rules)], schema=_OF_GROUP)

    return count


def _counter(rules: SessionRules) -> Callable[[pa.Table], pa.Table]:
    def count(rows: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([_counts(log_of(rows), rules)], schema=_OF_GROUP)

    return count


def _counts(log: Sequence[pa.Table], rules: SessionRules) -> dict[str, int | None]:
    """Count one group's log, by ``_OF_GROUP``. Duplicates are events, but of no session."""
    ends = ends_of_open(log, rules)
    keys = pa.chunked_array([chunk for table in log for chunk in table.column(schema.KEY).chunks], pa.string())
    return {
        "events": sum(table.num_rows for table in log),
        "keys": len(keys.unique()),
        "sessions": ends.sessions,
        "due_ms": ends.due_ms,
    }


def _totals() -> list[Column]:
    """Return the fields of ``Held``, of columns by ``_OF_GROUP``."""
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("events", "keys", "sessions")]
    groups = F.count("events").alias("groups")
    return [*sums, groups, F.min("due_ms").alias("earliest_due_ms")]
