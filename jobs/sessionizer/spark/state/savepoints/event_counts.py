"""Counts of open events: their sessions and keys, and the time at which the first session could end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.core.key_group.merging import ends_of_open
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import KEY_GROUP, log_of
from sessionizer.core.wire.codec import decode_log
from sessionizer.core.wire.rows import INITIAL
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS, SEEN_FILES, TIMEOUTS
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.sinks.write import few_blobs_at_a_time
from sessionizer.spark.state.group_logs import log_row, whole_logs
from sessionizer.spark.state.open_events import iterate_logs, log_blobs
from sessionizer.spark.state.savepoints.canonical_tables import has_table, read_saved_logs, savepoint_table
from sessionizer.state.savepoints.manifest import Counts, read_saved_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from sessionizer.core.definition.rules import SessionRules
    from sessionizer.home.stream_home import SavepointHome
    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.savepoints.manifest import Manifest

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
    """Return the logs of a state by ``rows.INITIAL``, and ``makes``: the counts of a log, in the row of its first blob.

    Evaluate it in ``reading_state``.
    """
    shape = f"{INITIAL}, {_MAKES} {from_arrow_schema(_OF_GROUP).simpleString()}"
    return log_blobs(spark, state).mapInArrow(_log_maker(rules), shape)


def sum_counts(logs: DataFrame) -> Held:
    """Sum up the counts of the logs of ``count_state_logs``."""
    return _held_together(logs.select(f"{_MAKES}.*"))


def count_held(open_events: DataFrame, rules: SessionRules) -> Held:
    """Count the content of canonical rows. A key group is opened whole, as in a merge."""
    of_groups = open_events.groupBy(KEY_GROUP).applyInArrow(_counter(rules), from_arrow_schema(_OF_GROUP))
    return _held_together(of_groups)


def count_logs(logs: DataFrame, rules: SessionRules) -> Held:
    """Count the content of logs, by ``label`` and ``blob``, those of a group together and in order.

    Call it in ``few_blobs_at_a_time``.
    """
    return _held_together(logs.mapInArrow(_log_counter(rules), from_arrow_schema(_OF_GROUP)))


class Recount(NamedTuple):
    """The counts of a savepoint, recounted from one of its tables of open events and the other parts."""

    counts: Counts
    earliest_due_ms: int | None


def recount(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> dict[str, Recount]:
    """Count a canonical savepoint by each of its tables of open events, in the way it was counted when it was made."""
    timeouts, seen_files = (savepoint_table(spark, home, part).count() for part in (TIMEOUTS, SEEN_FILES))
    rules, held = rules_of(read_saved_spec(home, manifest)), dict[str, Held]()
    if has_table(manifest, OPEN_EVENTS):
        held[OPEN_EVENTS] = count_held(savepoint_table(spark, home, OPEN_EVENTS), rules)
    if has_table(manifest, GROUP_LOGS):
        logs = read_saved_logs(spark, home, manifest.key_groups)
        with few_blobs_at_a_time(spark):
            held[GROUP_LOGS] = count_logs(whole_logs(logs, manifest.key_groups), rules)
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
