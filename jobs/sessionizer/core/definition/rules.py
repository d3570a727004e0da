"""The rules of a stream, which decide where one session ends and the next begins. All times are milliseconds.

Only this file and the oracle ask which clock (``rules.time_mode`` of a spec) a stream has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

NEVER_MS: Final = 2**62
"""A moment, or a timeout, that is never reached. Twice this, less one, still fits a signed 64-bit column.

Any longer timeout counts as this one.
"""


class Clock(StrEnum):
    """The clock that a gap runs on."""

    EVENT_TIME = "event_time"
    """The time written in the event. Sessions close when the watermark passes."""
    PROCESSING_TIME = "processing_time"
    """The time of the batch that brought the event. Sessions close when the wall clock passes."""
    NONE = "none"
    """No gap: only closing events and caps end a session."""

    @property
    def has_watermark(self) -> bool:
        """Whether events bring the clock, and a watermark decides lateness and ends. Else the clock is their arrival.

        On arrival the event's own time only orders the events of one batch (the column ``tie``).
        """
        return self is Clock.EVENT_TIME

    @property
    def has_gaps(self) -> bool:
        """Whether a session ends after some quiet time."""
        return self is not Clock.NONE

    @property
    def needs_arrivals(self) -> bool:
        """Whether sessions depend on when events arrived, which no history tells."""
        return self is Clock.PROCESSING_TIME

    def late_before(self, watermark_ms: int, arrived_at_ms: int) -> int:
        """Return the moment (epoch ms) at or before which an event of the batch is late."""
        return watermark_ms if self.has_watermark else arrived_at_ms - 1

    def final_by(self, watermark_ms: int, arrived_at_ms: int) -> int:
        """Return the moment (epoch ms) at or before which a session that is due in the batch is final."""
        return watermark_ms if self.has_watermark else arrived_at_ms


class Caps(NamedTuple):
    """The most events, the longest time (ms) and the most bytes of a session. None means no such cap.

    Each is a field of a spec's rules, kept with each event. A new one comes last, because blobs keep them in order.
    """

    max_events: int | None = None
    max_duration_ms: int | None = None
    max_bytes: int | None = None


NO_CAPS: Final = Caps()


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The rules of one stream.

    ``client_timeouts_ms`` maps a client to its own gap timeout, which overrides ``gap_timeout_ms``. An event
    is admitted with ``caps``. ``emit_every_ms`` limits how late a final session is emitted, and changes no session.
    """

    clock: Clock
    watermark_delay_ms: int
    gap_timeout_ms: int
    client_timeouts_ms: Mapping[str, int]
    caps: Caps = NO_CAPS
    emit_every_ms: int = 0


def find_changed_timeouts(
    announced: Mapping[str, int], table: Mapping[str, int], inline: Mapping[str, int], default_ms: int
) -> dict[str, int]:
    """Return the clients whose timeout (ms) has changed, with the new one.

    ``announced`` is what the stream knows, ``table`` the present table of clients. A client that left the table gets
    its timeout in ``inline``, the spec's, or ``default_ms``.
    """
    wanted = {client: inline.get(client, default_ms) for client in announced} | dict(table)
    return {client: timeout for client, timeout in wanted.items() if announced.get(client) != timeout}


UNWATCHED_AFTER_MS: Final = 10_000
"""Time between two looks from which on the source was not watched. A driver looks several times a second."""


@dataclass(slots=True)
class IdleClock:
    """A clock that detects a quiet source and estimates event time meanwhile. All times are ms.

    While nothing arrives, event time is assumed to advance at the pace of time, from where it stood when the quiet
    began. ``every_ms`` is the least time between two punctuations. ``now`` is of a clock that is never set, and time in
    which nobody looked is no quiet: a step of the wall clock, or a process or machine that was stopped for a while,
    would else close sessions whose events wait.
    """

    idle_after_ms: int
    every_ms: int
    _quiet_since: int | None = None
    _watermark_then: int | None = None
    _last_said: int | None = None
    _last_floor: int = 0
    _looked_at: int | None = None

    def look(self, now: int) -> None:
        """Note that the source is watched at ``now``, also while no floor is asked for."""
        unwatched = 0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        if self._quiet_since is not None and unwatched > UNWATCHED_AFTER_MS:
            self._quiet_since = min(now, self._quiet_since + unwatched)

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
