"""The clock that moves the watermark while the source is quiet (docs/adr/0054)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IdleClock:
    """A clock that detects a quiet source and estimates event time meanwhile. All times are ms.

    While nothing arrives, event time is assumed to advance at the pace of the wall clock, from where it stood when the
    quiet began. ``every_ms`` is the least wall time between two punctuations.
    """

    idle_after_ms: int
    every_ms: int
    _quiet_since: int | None = None
    _watermark_then: int | None = None
    _last_said: int | None = None
    _last_floor: int = 0

    def saw_events(self, now: int) -> None:
        """Note that a batch brought events, which ends the quiet, if any."""
        self._quiet_since, self._watermark_then, self._last_said, self._last_floor = now, None, None, 0

    def floor(self, now: int, watermark_ms: int | None, *, latest_due_ms: int | None, caught_up: bool) -> int | None:
        """Return the watermark to announce at ``now``, or None.

        ``watermark_ms`` is the query's watermark. The result is None before there is one, and while the source still
        has rows to read. ``latest_due_ms`` is the end of the last open session. The result is never beyond it: a
        higher watermark would close nothing, and would make events late that a fault upstream is holding back.
        """
        if self._quiet_since is None:
            self._quiet_since = now
        if not caught_up or not watermark_ms or latest_due_ms is None or watermark_ms >= latest_due_ms:
            return None
        quiet_ms = now - self._quiet_since
        if quiet_ms < self.idle_after_ms or (self._last_said is not None and now - self._last_said < self.every_ms):
            return None
        if self._watermark_then is None or watermark_ms > self._last_floor:
            # The watermark passed our own floors: it comes from events before the quiet and is known only now.
            self._watermark_then = watermark_ms
        self._last_said, self._last_floor = now, min(self._watermark_then + quiet_ms, latest_due_ms)
        return self._last_floor
