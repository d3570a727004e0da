"""A heartbeat as one line for whoever watches a driver in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.control.heartbeat import Heartbeat

HEAVY_GROUP_BYTES: Final = 2**28
"""A merge takes about three times as much of memory."""
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def in_words(milliseconds: int) -> str:
    """A length of time in its two longest units, such as ``3 m 20 s``; below a second in ms."""
    if abs(milliseconds) < _UNITS[-1][1]:
        return f"{milliseconds} ms"
    sign, rest = ("-" if milliseconds < 0 else ""), abs(milliseconds)
    first = next(index for index, (_, size) in enumerate(_UNITS) if rest >= size)
    parts = []
    for unit, size in _UNITS[first : first + 2]:
        count, rest = divmod(rest, size)
        parts += [f"{count} {unit}"] if count else []
    return sign + " ".join(parts)


def progress_line(beat: Heartbeat) -> str:
    """What the last batch did and where the stream stands."""
    facts = [
        f"batch {beat.batch_id}",
        f"{beat.rows_per_second or 0:,.0f} ev/s",
        _watermark(beat),
        f"source {beat.source_lag:,} behind" if beat.source_lag is not None else "",
        f"open {beat.open_keys or 0:,}",
        f"emitted {beat.sessions_rows or 0:,}",
        f"late {beat.late:,}" if beat.late else "",
        f"quarantined {beat.quarantined:,}" if beat.quarantined else "",
        _heavy(beat),
    ]
    return " · ".join(fact for fact in facts if fact)


def _heavy(beat: Heartbeat) -> str:
    held = beat.heaviest_group_bytes or 0
    return f"key group {beat.heaviest_group} is heavy: {held / 2**30:.1f} GiB open" if held >= HEAVY_GROUP_BYTES else ""


def _watermark(beat: Heartbeat) -> str:
    if beat.is_drained:
        return "every session closed"
    return "" if beat.watermark_lag_ms is None else f"watermark {in_words(beat.watermark_lag_ms)} behind"


class ProgressTeller:
    """Says a line about a new batch, at most one in ``every_ms``."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._told: Heartbeat | None = None

    def line(self, beat: Heartbeat, now: int) -> str | None:
        """The line that is due at ``now`` (epoch ms); None if none is."""
        if beat.batch_id is None or (self._told is not None and not self._is_due(beat, self._told, now)):
            return None
        self._told = beat
        self._told_at = now
        return progress_line(beat)

    def _is_due(self, beat: Heartbeat, told: Heartbeat, now: int) -> bool:
        return beat.batch_id != told.batch_id and now - self._told_at >= self._every_ms
