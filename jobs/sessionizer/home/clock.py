"""The wall clock as all control files write it, and the text of moments and durations."""

import time
from datetime import UTC, datetime
from typing import Final

from sessionizer.errors import InvalidSpec

SECOND: Final = 1_000
"""A second in milliseconds. So are the longer units."""
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
_UNITS: Final = (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND))


def epoch_ms() -> int:
    """Return the milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return the milliseconds of a clock that is never set, and stands while the machine sleeps. For spans only."""
    return time.monotonic_ns() // 1_000_000


def moment_text(ms: int) -> str:
    """Format a moment (epoch ms) to the second, in UTC. A moment beyond the calendar is shown in milliseconds."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def moment_of(text: str, field: str, otherwise: str = "") -> int:
    """Parse a moment in ISO 8601 (UTC without an offset) into epoch ms. Raises InvalidSpec for ``field``."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidSpec(field, text, f"{otherwise}a moment in ISO 8601, such as 2026-11-23T10:00, in UTC") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def clock_time(ms: int) -> str:
    """Format a moment (epoch ms) as hours, minutes and seconds in UTC."""
    return moment_text(ms)[-len("00:00:00 UTC") :]


def describe_duration(milliseconds: int) -> str:
    """Format a duration in its two longest units, such as ``3 m 20 s``, and below a second in ms."""
    if abs(milliseconds) < _UNITS[-1][1]:
        return f"{milliseconds} ms"
    sign, rest = ("-" if milliseconds < 0 else ""), abs(milliseconds)
    first = next(index for index, (_, size) in enumerate(_UNITS) if rest >= size)
    parts = []
    for unit, size in _UNITS[first : first + 2]:
        count, rest = divmod(rest, size)
        parts += [f"{count} {unit}"] if count else []
    return sign + " ".join(parts)
