"""The query of Spark's guide to transformWithState: keyed by user, a list of events and a timer each, Python rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from sessionizer_bench.contestants.race import Race, events, start_into_delta

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_EVENT: Final = "at_ms long, event_id string, data string, is_last boolean, timeout_s int"
_SESSION: Final = (
    "user_id string, started_ms long, ended_ms long, event_count int, "
    f"events array<struct<{_EVENT.replace(' ', ': ').replace(',:', ',')}>>"
)
_EventRow = Row("at_ms", "event_id", "data", "is_last", "timeout_s")
_SessionRow = Row("user_id", "started_ms", "ended_ms", "event_count", "events")
Event = tuple[int, str, str, bool, int]


def start(spark: SparkSession, race: Race) -> StreamingQuery:
    """Start the query."""
    watermarked = events(spark, race).withWatermark("event_time", f"{race.watermark_delay_s} seconds")
    rows = watermarked.selectExpr(
        "user_id", "event_time", "unix_millis(event_time) at_ms", "event_id", "data", "is_last", "timeout_s"
    )
    sessions = rows.groupBy("user_id").transformWithState(UserSessions(), _SESSION, "append", "eventTime")
    shown = "user_id", "timestamp_millis(started_ms) started_at", "timestamp_millis(ended_ms) ended_at"
    return start_into_delta(sessions.selectExpr(*shown, "event_count", "events"), race)


class UserSessions(StatefulProcessor):
    """The open events of a user, and a timer at the end of the first of their sessions."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables."""
        self._handle = handle
        self._events = handle.getListState("events", _EVENT)
        self._timer = handle.getValueState("timer", "at_ms long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ANN401  Spark's
        """Add the new events, and emit the sessions that are due."""
        new = [(row.at_ms, row.event_id, row.data, row.is_last, row.timeout_s) for row in rows]
        yield from self._advance(key[0], new, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803, ANN401, ARG002
        """Emit the sessions that are due."""
        yield from self._advance(key[0], [], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Do nothing, because there is nothing to release."""

    def _advance(self, user: str, new: list[Event], watermark_ms: int) -> Iterator[Row]:
        known = [tuple(row) for row in self._events.get()]
        sessions = cut(sorted([*known, *new]))
        remaining = [session for session in sessions if due_ms(session) > watermark_ms]
        for session in sessions:
            if due_ms(session) <= watermark_ms:
                kept = [_EventRow(*event) for event in session]
                yield _SessionRow(user, session[0][0], session[-1][0], len(session), kept)
        self._remember(remaining, watermark_ms)

    def _remember(self, remaining: list[list[Event]], watermark_ms: int) -> None:
        timer = self._timer.get()
        if timer is not None and timer[0] > watermark_ms:
            self._handle.deleteTimer(timer[0])
        if not remaining:
            self._events.clear()
            self._timer.clear()
            return
        self._events.put([event for session in remaining for event in session])
        at_ms = min(due_ms(session) for session in remaining)
        self._handle.registerTimer(at_ms)
        self._timer.update((at_ms,))


def cut(ordered: list[Any]) -> list[list[Event]]:
    """Cut ordered events into sessions."""
    sessions: list[list[Event]] = []
    for event in ordered:
        if sessions and not sessions[-1][-1][3] and event[0] <= sessions[-1][-1][0] + sessions[-1][-1][4] * 1000:
            sessions[-1].append(event)
        else:
            sessions.append([event])
    return sessions


def due_ms(session: list[Event]) -> int:
    """Return the end of the session, in epoch ms."""
    at_ms, _, _, is_last, timeout_s = session[-1]
    return at_ms if is_last else at_ms + timeout_s * 1000
