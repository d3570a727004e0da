"""When a quiet source may move the watermark by itself (docs/adr/0054)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IdleClock:
    """Watches for quiet and says how far event time may be taken to have come. All times are ms.

    While nothing arrives, event time is assumed to go on at the pace of the wall clock from where it stood when the
    quiet began. ``every_ms``: the least wall time between two punctuations.
    """

    idle_after_ms: int
    every_ms: int
    _quiet_since: int | None = None
    _watermark_then: int | None = None
    _last_said: int | None = None
    _last_floor: int = 0

    def saw_events(self, now: int) -> None:
        """A batch brought events: the quiet, if any, is over."""
        self._quiet_since, self._watermark_then, self._last_said, self._last_floor = now, None, None, 0

    def floor(self, now: int, watermark_ms: int | None, *, latest_due_ms: int | None, caught_up: bool) -> int | None:
        """The watermark to announce at ``now``, or None.

        ``watermark_ms``: where the query's stands. Nothing is said before there was one, or while the source still has
        something to read. ``latest_due_ms``: when the last of the open sessions is over. Beyond that there is nothing
        to close: a watermark there could only make events late that a fault upstream is holding back.
        """
        if self._quiet_since is None:
            self._quiet_since = now
        if not caught_up or not watermark_ms or latest_due_ms is None or watermark_ms >= latest_due_ms:
            return None
        quiet_ms = now - self._quiet_since
        if quiet_ms < self.idle_after_ms or (self._last_said is not None and now - self._last_said < self.every_ms):
            return None
        if self._watermark_then is None or watermark_ms > self._last_floor:
            # beyond our own floors: events from before the quiet, whose watermark is only now known
            self._watermark_then = watermark_ms
        self._last_said, self._last_floor = now, min(self._watermark_then + quiet_ms, latest_due_ms)
        return self._last_floor
