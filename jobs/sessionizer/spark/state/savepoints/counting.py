"""What open events make: how many sessions of how many keys, and when the first of them could end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from sessionizer.core.key_group.merging import merge
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import KEY_GROUP, log_of
from sessionizer.home.savepoint_home import OPEN_EVENTS, SEEN_FILES, TIMEOUTS
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.state.savepoints.canonical_tables import savepoint_table
from sessionizer.state.savepoints.manifest import Counts, saved_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.core.definition.rules import SessionRules
    from sessionizer.home.savepoint_home import SavepointHome
    from sessionizer.state.savepoints.manifest import Manifest

_BEFORE_ALL: Final = -1
_OF_GROUP: Final = "events bigint, keys bigint, sessions bigint, due_ms bigint"


class Held(NamedTuple):
    """Of open events: how many, of how many keys, in how many groups, the sessions they make, the earliest end."""

    events: int
    keys: int
    groups: int
    sessions: int
    earliest_due_ms: int | None

    def counts(self, timeouts: int, seen_files: int) -> Counts:
        """With what else a savepoint holds."""
        return Counts(self.events, self.keys, self.groups, self.sessions, timeouts, seen_files)


def held_in(open_events: DataFrame, rules: SessionRules) -> Held:
    """What canonical rows hold, duplicates left out of the sessions. A key group is opened whole, as in a merge."""
    of_groups = open_events.groupBy(KEY_GROUP).applyInArrow(_counter(rules), _OF_GROUP)
    total = of_groups.agg(
        F.count("*").alias("groups"), F.min("due_ms").alias("due_ms"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("events", "keys", "sessions")),
    ).first()  # fmt: skip
    assert total is not None  # noqa: S101  an aggregate of all has one row
    return Held(total.events, total.keys, total.groups, total.sessions, total.due_ms)


def recounted(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> tuple[Counts, int | None]:
    """What the tables of a canonical savepoint hold, and the earliest end, counted as when it was made."""
    tables = {part: savepoint_table(spark, home, part) for part in (OPEN_EVENTS, TIMEOUTS, SEEN_FILES)}
    held = held_in(tables[OPEN_EVENTS], rules_of(saved_spec(home, manifest)))
    counts = held.counts(tables[TIMEOUTS].count(), tables[SEEN_FILES].count())
    return counts, held.earliest_due_ms


def _counter(rules: SessionRules) -> Callable[[pa.Table], pa.Table]:
    def count(rows: pa.Table) -> pa.Table:
        merged = merge(log_of(rows), _BEFORE_ALL, rules, [])
        keys = pc.count_distinct(rows.column(schema.KEY)).as_py()
        counts = {"events": rows.num_rows, "keys": keys, "sessions": merged.open_sessions, "due_ms": merged.due_ms}
        return pa.table({name: pa.array([count], pa.int64()) for name, count in counts.items()})

    return count
