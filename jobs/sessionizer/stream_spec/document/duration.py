"""Durations: text such as ``10 minutes`` in a spec, whole milliseconds in Python."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import DAY, HOUR, MINUTE, SECOND
from sessionizer.stream_spec.document.section import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping


MILLISECONDS_OF: Final = {
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": SECOND,
    "millisecond": 1,
}
"""Milliseconds in a unit, the longest unit first."""

LONGEST: Final = 36_500 * DAY
"""A century. A longer duration is a slip, and sums with event times stay far from the limits of 64 bits."""

DURATION_PATTERN: Final = f"^([1-9][0-9]{{0,14}}) ({'|'.join(MILLISECONDS_OF)})s?$"
DURATION_ALLOWED: Final = (
    "a whole number above 0 and a unit (milliseconds, seconds, minutes, hours, days), such as '30 seconds', "
    "up to 36500 days"
)


def parse_duration(text: object) -> int:
    """Return the milliseconds that ``text`` stands for. Refuses anything but a positive duration with a unit."""
    match = re.fullmatch(DURATION_PATTERN.strip("^$"), text) if isinstance(text, str) else None
    milliseconds = int(match[1]) * MILLISECONDS_OF[match[2]] if match else 0
    if not 0 < milliseconds <= LONGEST:
        raise refusal(text, DURATION_ALLOWED)
    return milliseconds


def format_duration(milliseconds: int) -> str:
    """Format ``milliseconds`` in the longest unit that needs no fraction. The inverse of ``parse_duration``."""
    unit, size = next((unit, size) for unit, size in MILLISECONDS_OF.items() if milliseconds % size == 0)
    count = milliseconds // size
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "type": "string",
            "format": "duration-with-unit",
            "pattern": DURATION_PATTERN,
            "examples": ["30 seconds", "10 minutes", "1 hour"],
        },
    ),
]
"""Milliseconds, read from text such as ``30 seconds`` and written as such in JSON."""


PREFIX: Final = "SESSIONIZER_"


def duration_from(environment: Mapping[str, str], name: str) -> int:
    """Parse ``SESSIONIZER_STALE_LIMIT="5 minutes"`` into ms, for the name ``stale_limit``.

    Raises InvalidSpec, KeyError.
    """
    variable = variable_of(name)
    try:
        return parse_duration(environment[variable])
    except ValueError as error:
        raise InvalidSpec(variable, environment[variable], "a duration such as '30 seconds' or '5 minutes'") from error


def variable_of(name: str) -> str:
    """Return the variable that sets ``name``."""
    return PREFIX + name.upper()
