"""Preview of pending migrations on a committed batch: the decided events, before and after. The stream may run on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from sessionizer.core.wire import rows, schema
from sessionizer.home.roots import uri_of
from sessionizer.migrations.preview import SAMPLES, MergedKey, MigratedSample, Preview
from sessionizer.spark.state.lineages.migrated_columns import migrate_rows, show_events

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import Column, DataFrame

    from sessionizer.spark.state.lineages.migrated_events import MigratedEvents

_BEFORE: Final = "_before"
_NUMBER: Final = "_number"
_PREVIEW: Final = "preview"


def preview_migrations(events: MigratedEvents) -> Preview:
    """Return what the pending migrations do. Writes only into the folder of ``events``.

    Raises InvalidSpec for SQL that does not fit, and MigrationRefused.
    """
    events.decide()
    given = events.decided_events()
    given = given.withColumn(_BEFORE, _as_json(given)).withColumn(_NUMBER, F.monotonically_increasing_id())
    before = _evaluate(events, "before", given)
    after = _evaluate(events, _PREVIEW, migrate_rows(before, events.compiled))
    events.require_whole(_unfit(after))
    old_key = F.get_json_object(_BEFORE, f"$.{schema.KEY}")
    merged = after.groupBy(schema.KEY).agg(F.collect_set(old_key).alias("keys")).where(F.size("keys") > 1)
    split = after.groupBy(old_key.alias("old")).agg(F.count_distinct(schema.KEY).alias("keys")).where("keys > 1")
    ids = after.groupBy(schema.KEY, schema.EVENT_ID).count().where("count > 1")
    kept, counts = after.count(), events.counts()
    total = before.count()
    return Preview(
        stream=events.home.name,
        lineage=events.committed.lineage,
        batch_id=events.committed.batch_id,
        ids=tuple(each.id for each in events.pending),
        finished=counts.get(rows.SESSIONS, 0),
        events=total,
        leave=total - kept,
        keys_before=before.select(schema.KEY).distinct().count(),
        keys_after=after.select(schema.KEY).distinct().count(),
        merged_keys=merged.count(),
        split_keys=split.count(),
        duplicates=int(ids.agg(F.sum(F.col("count") - 1)).collect()[0][0] or 0),
        collisions=_collisions(merged),
        samples=_samples(before, after),
    )


def _evaluate(events: MigratedEvents, name: str, frame: DataFrame) -> DataFrame:
    """Evaluate ``frame`` once."""
    place = uri_of(events.folder / name)
    frame.write.parquet(place)
    return frame.sparkSession.read.schema(frame.schema).parquet(place)


def _unfit(after: DataFrame) -> dict[str, int]:
    """Count the events that would have no key, and those without a timeout of at least 1 ms."""
    wrong = {schema.KEY: F.col(schema.KEY).isNull(), schema.TIMEOUT: F.col(schema.TIMEOUT) < 1}
    counts = after.agg(*(F.count_if(each).alias(name) for name, each in wrong.items())).first()
    assert counts is not None  # noqa: S101  an aggregate of all has one row
    return counts.asDict()


def _as_json(frame: DataFrame) -> Column:
    return F.to_json(F.struct(*show_events(frame)), {"ignoreNullFields": "false"})


def _collisions(merged: DataFrame) -> tuple[MergedKey, ...]:
    found = merged.orderBy(F.size("keys").desc(), schema.KEY).limit(SAMPLES).collect()
    return tuple(MergedKey(row.key, len(row["keys"]), tuple(sorted(row["keys"])[:SAMPLES])) for row in found)


def _samples(before: DataFrame, after: DataFrame) -> tuple[MigratedSample, ...]:
    """Return the first events by key and time, each before and after."""
    first = before.orderBy(schema.KEY, "clock_ms", schema.EVENT_ID).limit(SAMPLES).select(_NUMBER, _BEFORE)
    now = after.select(_NUMBER, _as_json(after).alias("now"))
    found = first.join(now, _NUMBER, "left").collect()
    pairs = [(_object(row[_BEFORE]), None if row["now"] is None else _object(row["now"])) for row in found]
    return tuple(
        MigratedSample(*pair) for pair in sorted(pairs, key=lambda pair: (pair[0]["key"], str(pair[0]["event_time"])))
    )


def _object(text: str) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
