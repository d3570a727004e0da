"""Columns of open events after migrations, and what a migration would do with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.wire import rows, schema
from sessionizer.home.roots import uri_of
from sessionizer.migrations.declared import Assignment, CompiledMigration
from sessionizer.migrations.draft import SAMPLES, MergedKey, MigratedSample, Preview
from sessionizer.spark.ingest.expressions import (
    check_type,
    find_beyond_years,
    normalize_type,
    require_keepable,
    require_type,
)
from sessionizer.spark.ingest.guard import INTEGERS
from sessionizer.spark.internals.trying import try_expression

if TYPE_CHECKING:
    from sessionizer.spark.state.lineages.migrated_events import MigratedEvents


_ROW: Final = "_row"
PREFIX: Final = f"{schema.PAYLOAD}_"
_CLOCK: Final = "clock_ms"
_TIE: Final = "tie_ms"
_TIMEOUT: Final = schema.TIMEOUT
_EVENT: Final = frozenset({schema.KEY, schema.CLIENT, _CLOCK, _TIE, schema.EVENT_ID, schema.CLOSES, _TIMEOUT})


def migrate_rows(rows: DataFrame, migrations: Iterable[CompiledMigration]) -> DataFrame:
    """Return canonical open events after ``migrations``, one after the other. Other columns of ``rows`` stay.

    Nothing is evaluated. A key is null where its expression gave none, and a timeout is below 1 where its was none.
    Raises InvalidSpec for SQL that does not fit.
    """
    return reduce(_migrate, migrations, rows)


def payload_names(columns: Sequence[str]) -> list[str]:
    """Return the names that a spec has for the payload ``columns`` of canonical rows."""
    return [name.removeprefix(PREFIX) for name in columns if name.startswith(PREFIX)]


def payload_of(rows: DataFrame) -> StructType:
    """Return the payload columns of canonical rows with their types, by the names of the spec."""
    return StructType([StructField(n, rows.schema[f"{PREFIX}{n}"].dataType) for n in payload_names(rows.columns)])


def show_events(rows: DataFrame) -> list[Column]:
    """Return the columns of an open event as a migration sees them."""
    payload = payload_names(rows.columns)
    at = F.nullif(F.col(_TIE), F.lit(0)) if _TIE in rows.columns else F.col(_CLOCK)
    own = {
        schema.KEY: F.col(schema.KEY),
        schema.CLIENT: F.col(schema.CLIENT),
        "event_time": F.timestamp_millis(at),
        schema.EVENT_ID: F.col(schema.EVENT_ID),
        schema.CLOSES: F.col(schema.CLOSES),
        _TIMEOUT: F.col(_TIMEOUT),
    }
    # a payload column of the same name is meant, because only that one is the user's
    ours = [column.alias(name) for name, column in own.items() if name not in payload]
    return [*ours, *(F.col(f"`{PREFIX}{name}`").alias(name) for name in payload)]


def _migrate(rows: DataFrame, compiled: CompiledMigration) -> DataFrame:
    view = rows.select(F.struct(*(F.col(f"`{name}`") for name in rows.columns)).alias(_ROW), *show_events(rows))
    set_by_it = {
        schema.KEY: _text(view, compiled.key),
        schema.CLIENT: _text(view, compiled.client),
        _TIMEOUT: _timeout(view, compiled.timeout_ms),
    }
    payload = {f"{PREFIX}{each.column}": _payload(view, each) for each in compiled.payload}
    stays = _condition(view, compiled.where)
    kept = view if stays is None else view.where(stays)
    own = [name for name in rows.columns if not name.startswith(PREFIX)]
    # the payload columns stay between those of the event and the two that canonical rows end with
    ordered = [name for name in own if name in _EVENT], list(payload), [name for name in own if name not in _EVENT]
    found = {**set_by_it, **payload}
    columns = [(name, found.get(name)) for names in ordered for name in names]
    return kept.select(*((_old_column(name) if column is None else column).alias(name) for name, column in columns))


def _old_column(name: str) -> Column:
    return F.col(f"{_ROW}.`{name}`")


def _text(view: DataFrame, assignment: Assignment) -> Column | None:
    if assignment.sql is None:
        return None
    check_type(view, assignment.field, assignment.sql)
    return try_expression(view, assignment.sql).cast("string")


def _timeout(view: DataFrame, assignment: Assignment) -> Column | None:
    """Return the timeout, 0 for none, at most ``NEVER_MS``."""
    if assignment.sql is None:
        return None
    require_type(view, assignment.field, assignment.sql, INTEGERS, "It is in milliseconds, for example 1800 * 1000L")
    found = try_expression(view, assignment.sql).cast("bigint")
    return F.least(F.coalesce(found, F.lit(0).cast("bigint")), F.lit(NEVER_MS))


def _condition(view: DataFrame, assignment: Assignment) -> Column | None:
    if assignment.sql is None:
        return None
    require_type(view, assignment.field, assignment.sql, ("boolean",), "For example: client <> 'test'")
    return F.coalesce(try_expression(view, assignment.sql), F.lit(False))  # noqa: FBT003  lit has no keyword


def _payload(view: DataFrame, assignment: Assignment) -> Column:
    if assignment.sql is None:
        return _old_column(f"{PREFIX}{assignment.column}")
    kind = normalize_type(require_keepable(view, assignment.field, assignment.sql))
    found = try_expression(view, assignment.sql).cast(kind)
    beyond = find_beyond_years(found, kind)
    # a moment that Arrow or Delta cannot keep would end the stream at the next merge
    return found if beyond is None else F.when(~F.coalesce(beyond, F.lit(False)), found)  # noqa: FBT003  lit has no keyword


_BEFORE: Final = "_before"
_NUMBER: Final = "_number"


def preview_migrations(events: MigratedEvents) -> Preview:
    """Return what pending migrations do, by files in their folder. Raises InvalidSpec, MigrationRefused."""
    events.decide()
    given = events.decided_events()
    given = given.withColumn(_BEFORE, _as_json(given)).withColumn(_NUMBER, F.monotonically_increasing_id())
    before = _evaluate(events, "before", given)
    after = _evaluate(events, "preview", migrate_rows(before, events.compiled))
    wrong = {schema.KEY: F.col(schema.KEY).isNull(), schema.TIMEOUT: F.col(schema.TIMEOUT) < 1}
    unfit = after.agg(*(F.count_if(each).alias(name) for name, each in wrong.items())).first()
    events.require_whole(unfit.asDict() if unfit else {})
    old_key = F.get_json_object(_BEFORE, f"$.{schema.KEY}")
    merged = after.groupBy(schema.KEY).agg(F.collect_set(old_key).alias("keys")).where(F.size("keys") > 1)
    split = after.groupBy(old_key.alias("old")).agg(F.count_distinct(schema.KEY).alias("keys")).where("keys > 1")
    ids = after.groupBy(schema.KEY, schema.EVENT_ID).count().where("count > 1")
    kept, counts, total = after.count(), events.counts(), before.count()
    collisions = merged.orderBy(F.size("keys").desc(), schema.KEY).limit(SAMPLES).collect()
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
        collisions=tuple(
            MergedKey(row.key, len(row["keys"]), tuple(sorted(row["keys"])[:SAMPLES])) for row in collisions
        ),
        samples=_samples(before, after),
    )


def _evaluate(events: MigratedEvents, name: str, frame: DataFrame) -> DataFrame:
    """Evaluate ``frame`` once."""
    place = uri_of(events.folder / name)
    frame.write.parquet(place)
    return frame.sparkSession.read.schema(frame.schema).parquet(place)


def _as_json(frame: DataFrame) -> Column:
    return F.to_json(F.struct(*show_events(frame)), {"ignoreNullFields": "false"})


def _samples(before: DataFrame, after: DataFrame) -> tuple[MigratedSample, ...]:
    """Return the first events by key and time, each before and after."""
    first = before.orderBy(schema.KEY, "clock_ms", schema.EVENT_ID).limit(SAMPLES).select(_NUMBER, _BEFORE)
    now = after.select(_NUMBER, _as_json(after).alias("now"))
    found = first.join(now, _NUMBER, "left").collect()
    pairs = [(json.loads(row[_BEFORE]), None if row["now"] is None else json.loads(row["now"])) for row in found]
    pairs.sort(key=lambda pair: (pair[0]["key"], str(pair[0]["event_time"])))
    return tuple(MigratedSample(*pair) for pair in pairs)
