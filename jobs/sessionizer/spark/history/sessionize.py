"""Sessions of a history at once: the definition of a session again, as Spark SQL over windows.

It shares no code with the stream. A history is one batch, so nothing in it is late. Of several events of one id the
first in canonical order counts, however far apart they are. All times are milliseconds since 1970 unless they are
timestamps. Event times are taken to the millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from sessionizer.core.definition.event import SESSION_ID_LENGTH
from sessionizer.core.definition.outcome import CloseReason
from sessionizer.core.definition.rules import NEVER_MS, SessionRules
from sessionizer.errors import InvalidSpec
from sessionizer.spark.history.caps import cap_segments, event_order
from sessionizer.spark.history.event_size import event_size

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PAYLOAD = "payload"


def sessionize_history(events: DataFrame, rules: SessionRules, *, until_ms: int | None) -> DataFrame:
    """Return the sessions of a history that are final when the watermark is at ``until_ms`` (None: all of them).

    ``events`` are valid ones: key string, client string, event_time timestamp, event_id string, closes boolean,
    timeout_ms bigint (the event's own, may be null) and, if there is any, payload struct, whose fields must be of types
    that can be sorted. Returns session_id, key, client, started_at, ended_at, duration_ms, event_count, close_reason
    and events: array of (event_time, event_id, closes, the payload's fields) in session order. Raises InvalidSpec in
    processing_time mode, because a history does not say when its events arrived.
    """
    return _sessions(_cut(events, rules)).where(F.col("due_ms") <= _final_by(until_ms)).drop("due_ms")


def open_events(events: DataFrame, rules: SessionRules, *, until_ms: int | None) -> DataFrame:
    """Return the events that ``sessionize_history`` leaves: those of sessions that are not final at ``until_ms``.

    Returns the columns of ``events``. ``timeout_ms`` is the one in force, as a stream's state keeps it. Duplicates are
    in neither result.
    """
    of_session = Window.partitionBy("key", "session")
    undecided = F.max("due_ms").over(of_session) > _final_by(until_ms)
    return _cut(events, rules).withColumn("undecided", undecided).where("undecided").select(*events.columns)


def _final_by(until_ms: int | None) -> Column:
    return F.lit(NEVER_MS if until_ms is None else until_ms)


def _cut(events: DataFrame, rules: SessionRules) -> DataFrame:
    """Add ``session`` (its number within the key) to the admitted events. The last event of each has its end."""
    one_shuffle = events.repartition("key")  # every window and group below is within a key
    admitted = _first_of_each_id(_add_clock(one_shuffle, rules))
    return _add_close_reason(_number_sessions(cap_segments(_cut_at_gaps(admitted), rules)), rules)


def _add_clock(events: DataFrame, rules: SessionRules) -> DataFrame:
    """Add ``clock_ms``, ``bytes`` and ``deadline_ms``, the last moment at which another event continues the session."""
    clock_ms = F.unix_millis("event_time")
    in_force_ms = F.least(_timeout_in_force(rules), F.lit(NEVER_MS))
    return events.select(
        *(name for name in events.columns if name not in ("event_time", "timeout_ms")),
        F.timestamp_millis(clock_ms).alias("event_time"),
        clock_ms.alias("clock_ms"),
        event_size(events, PAYLOAD).alias("bytes"),
        in_force_ms.alias("timeout_ms"),
        F.least(clock_ms + in_force_ms, F.lit(NEVER_MS)).alias("deadline_ms"),
    )


def _timeout_in_force(rules: SessionRules) -> Column:
    if rules.clock.needs_arrivals:
        allowed = "event_time or none, because a history has no arrival times"
        raise InvalidSpec("rules.time_mode", rules.clock.value, allowed)
    if not rules.clock.has_gaps:
        return F.lit(NEVER_MS)
    choices = [F.col("timeout_ms")]
    if rules.client_timeouts_ms:
        pairs = [F.lit(part) for pair in rules.client_timeouts_ms.items() for part in pair]
        choices.append(F.try_element_at(F.create_map(*pairs), F.col("client")))
    return F.coalesce(*choices, F.lit(rules.gap_timeout_ms))


def _first_of_each_id(timed: DataFrame) -> DataFrame:
    """Keep the first event of each key and id in canonical order: by time, body and timeout, nulls first."""
    body = [name for name in ("client", PAYLOAD) if name in timed.columns]
    canonical = Window.partitionBy("key", "event_id").orderBy("clock_ms", "closes", *body, "timeout_ms")
    return timed.withColumn("copy", F.row_number().over(canonical)).where("copy = 1").drop("copy")


def _cut_at_gaps(admitted: DataFrame) -> DataFrame:
    """Cut after closing events and at gaps: the pieces are ``segment``s, numbered within the key."""
    before = F.lag(F.struct("closes", "deadline_ms")).over(event_order("key"))
    begins = before.isNull() | before["closes"] | (F.col("clock_ms") > before["deadline_ms"])
    marked = admitted.withColumn("begins", begins.cast("int"))
    return marked.withColumn("segment", F.sum("begins").over(event_order("key"))).drop("begins")


def _number_sessions(capped: DataFrame) -> DataFrame:
    """Number the sessions of a key. ``position`` becomes the event's in its session, from 0."""
    begins = (F.col("position") == 0) | F.col("begins_after_cap")
    numbered = capped.withColumn("session", F.sum(begins.cast("int")).over(event_order("key")))
    place = F.row_number().over(event_order("key", "session"))
    return numbered.withColumn("position", place - 1).drop("begins_after_cap", "segment")


def _add_close_reason(numbered: DataFrame, rules: SessionRules) -> DataFrame:
    """Add ``close_reason`` and ``due_ms``, which are null except at the last event of a session."""
    following = F.lead(F.struct("clock_ms", "session")).over(event_order("key"))
    is_last = following.isNull() | (following["session"] != F.col("session"))
    full = F.lit(False) if rules.max_events is None else F.col("position") + 1 >= rules.max_events  # noqa: FBT003 - lit has no keyword
    in_session = F.sum("bytes").over(Window.partitionBy("key", "session"))
    heavy = F.lit(False) if rules.max_bytes is None else in_session >= rules.max_bytes  # noqa: FBT003 - lit has no keyword
    gap = following.isNull() | (following["clock_ms"] > F.col("deadline_ms"))
    endings = [
        (F.col("closes"), CloseReason.CLOSING_EVENT, F.col("clock_ms")),
        (full, CloseReason.MAX_EVENTS, F.col("clock_ms")),
        (heavy, CloseReason.MAX_BYTES, F.col("clock_ms")),
        (gap, CloseReason.GAP, F.col("deadline_ms")),
        (F.lit(True), CloseReason.MAX_DURATION, following["clock_ms"]),  # noqa: FBT003 - lit has no keyword
    ]
    facts = [
        F.when(applies, F.struct(F.lit(reason.value).alias("reason"), due.alias("due")))
        for applies, reason, due in endings
    ]
    ending = F.when(is_last, F.coalesce(*facts))
    return numbered.withColumn("ending", ending).select(
        *numbered.columns, F.col("ending.reason").alias("close_reason"), F.col("ending.due").alias("due_ms")
    )


def _sessions(cut: DataFrame) -> DataFrame:
    """Return one row per session, with ``due_ms``."""
    payload = [F.col(f"{PAYLOAD}.*")] if PAYLOAD in cut.columns else []
    event = F.struct("event_time", "event_id", "closes", *payload).alias("event")
    member = F.struct("position", "clock_ms", "client", event)
    members = F.array_sort(F.collect_list(member)).alias("members")
    grouped = cut.groupBy("key", "session").agg(
        members, F.max("close_reason").alias("close_reason"), F.max("due_ms").alias("due_ms")
    )
    first, last = F.element_at("members", 1), F.element_at("members", -1)
    started_ms, ended_ms = first["clock_ms"], last["clock_ms"]
    return grouped.select(
        _identity(started_ms, first["event"]["event_id"]).alias("session_id"),
        "key",
        first["client"].alias("client"),
        F.timestamp_millis(started_ms).alias("started_at"),
        F.timestamp_millis(ended_ms).alias("ended_at"),
        (ended_ms - started_ms).alias("duration_ms"),
        F.size("members").alias("event_count"),
        "close_reason",
        F.col("members.event").alias("events"),
        "due_ms",
    )


def _identity(started_ms: Column, first_event_id: Column) -> Column:
    """Compute the session id like ``core.identity``."""
    ambiguous = F.contains(F.col("key"), F.lit("\0")) | F.contains(first_event_id, F.lit("\0"))
    length = F.when(ambiguous, F.octet_length("key").cast("string"))  # null, and left out, where it is not needed
    identity = F.concat_ws("\0", "key", started_ms.cast("string"), first_event_id, length)
    return F.substring(F.sha2(identity, 256), 1, SESSION_ID_LENGTH)
