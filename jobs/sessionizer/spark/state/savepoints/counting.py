"""What open events make: how many sessions of how many keys, and when the first of them could end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.core.key_group.merging import ends_of_open
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import KEY_GROUP, canonical_schema, log_of, typed_rows
from sessionizer.core.wire.codec import decode
from sessionizer.core.wire.group_labels import group_numbers
from sessionizer.home.savepoint_home import GROUP_LOGS, OPEN_EVENTS, SEEN_FILES, TIMEOUTS
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.sinks.unpack import few_blobs_at_a_time
from sessionizer.spark.state.group_logs import whole_logs
from sessionizer.spark.state.open_events import ROWS_AT_A_TIME, logs_in
from sessionizer.spark.state.savepoints.canonical_tables import has_logs, saved_logs, savepoint_table
from sessionizer.state.savepoints.manifest import Counts, saved_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from sessionizer.core.definition.rules import SessionRules
    from sessionizer.home.savepoint_home import SavepointHome
    from sessionizer.spark.state.open_events import KeptState
    from sessionizer.state.savepoints.manifest import Manifest

_OF_GROUP: Final = pa.schema([(name, pa.int64()) for name in ("events", "keys", "sessions", "due_ms")])
_COUNTED: Final = "counted"


class Held(NamedTuple):
    """Of open events: how many, of how many keys, in how many groups, the sessions they make, the earliest end."""

    events: int
    keys: int
    groups: int
    sessions: int
    earliest_due_ms: int | None

    @classmethod
    def of(cls, totals: Mapping[str, Any]) -> Held:
        """What ``_totals`` came to."""
        return cls(*(totals[name] for name in cls._fields))

    def counts(self, timeouts: int, seen_files: int) -> Counts:
        """With what else a savepoint holds."""
        return Counts(self.events, self.keys, self.groups, self.sessions, timeouts, seen_files)


def counted_open_events(logs: DataFrame, state: KeptState, rules: SessionRules) -> tuple[DataFrame, Observation]:
    """Every open event of the ``logs`` of a state (as ``log_blobs`` has them), by ``canonical_schema``.

    What they make is observed as they pass (``Held.of``): evaluate it once, in ``few_blobs_at_a_time``. Each group is
    opened only once that way.
    """
    shape = canonical_schema(state.events).append(pa.field(_COUNTED, pa.struct(_OF_GROUP)))
    opened = logs.mapInArrow(_opener(state, rules), from_arrow_schema(shape, prefer_timestamp_ntz=False))
    observation = Observation()
    return opened.observe(observation, *_totals(f"{_COUNTED}.")).drop(_COUNTED), observation


def held_in(open_events: DataFrame, rules: SessionRules) -> Held:
    """What canonical rows hold. A key group is opened whole, as in a merge."""
    of_groups = open_events.groupBy(KEY_GROUP).applyInArrow(_counter(rules), from_arrow_schema(_OF_GROUP))
    return _held_together(of_groups)


def held_in_logs(logs: DataFrame, rules: SessionRules) -> Held:
    """What logs hold, by ``label`` and ``blob``, those of a group together and in order; in ``few_blobs_at_a_time``."""
    return _held_together(logs.mapInArrow(_log_counter(rules), from_arrow_schema(_OF_GROUP)))


class Recounted(NamedTuple):
    """What one of the tables of open events holds, with all the rest of the savepoint."""

    counts: Counts
    earliest_due_ms: int | None


def recounted(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> dict[str, Recounted]:
    """What a canonical savepoint holds by each of its tables of open events, counted as when it was made."""
    timeouts, seen_files = (savepoint_table(spark, home, part).count() for part in (TIMEOUTS, SEEN_FILES))
    rules = rules_of(saved_spec(home, manifest))
    held = {OPEN_EVENTS: held_in(savepoint_table(spark, home, OPEN_EVENTS), rules)}
    if has_logs(manifest):
        logs = saved_logs(spark, home, manifest.key_groups)
        with few_blobs_at_a_time(spark):
            held[GROUP_LOGS] = held_in_logs(whole_logs(logs, manifest.key_groups), rules)
    return {part: Recounted(each.counts(timeouts, seen_files), each.earliest_due_ms) for part, each in held.items()}


def _opener(state: KeptState, rules: SessionRules) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``: a group's first row has what the group makes, the others a null."""
    key_groups, events = state.key_groups, state.events

    def open_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = group_numbers(key_groups)
        for label, blobs in logs_in(batches):
            log = [decode(blob) for blob in blobs]
            rows = typed_rows(log, numbers[label], events)
            counts = pa.array([_counts(log, rules)], pa.struct(_OF_GROUP))
            for part in filter(len, rows.to_batches(max_chunksize=ROWS_AT_A_TIME)):
                counted = pa.concat_arrays([counts, pa.nulls(part.num_rows - len(counts), counts.type)])
                yield pa.record_batch([*part.columns, counted], names=[*part.schema.names, _COUNTED])
                counts = counts[:0]

    return open_groups


def _held_together(of_groups: DataFrame) -> Held:
    total = of_groups.agg(*_totals()).first()
    assert total is not None  # noqa: S101  an aggregate of all has one row
    return Held.of(total.asDict())


def _log_counter(rules: SessionRules) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, blobs in logs_in(batches):
            yield pa.RecordBatch.from_pylist([_counts([decode(blob) for blob in blobs], rules)], schema=_OF_GROUP)

    return count


def _counter(rules: SessionRules) -> Callable[[pa.Table], pa.Table]:
    def count(rows: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([_counts(log_of(rows), rules)], schema=_OF_GROUP)

    return count


def _counts(log: Sequence[pa.Table], rules: SessionRules) -> dict[str, int | None]:
    """What one group's log comes to, by ``_OF_GROUP``: duplicates are events, but of no session."""
    ends = ends_of_open(log, rules)
    keys = pa.chunked_array([chunk for table in log for chunk in table.column(schema.KEY).chunks], pa.string())
    return {
        "events": sum(table.num_rows for table in log),
        "keys": pc.count_distinct(keys).as_py(),
        "sessions": ends.sessions,
        "due_ms": ends.due_ms,
    }


def _totals(inside: str = "") -> list[Column]:
    """The fields of ``Held``, of columns by ``_OF_GROUP`` that stand in the struct ``inside``, if in any."""
    sums = [F.coalesce(F.sum(f"{inside}{name}"), F.lit(0)).alias(name) for name in ("events", "keys", "sessions")]
    groups = F.count(f"{inside}events").alias("groups")
    return [*sums, groups, F.min(f"{inside}due_ms").alias("earliest_due_ms")]
