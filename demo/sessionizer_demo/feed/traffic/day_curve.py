"""How busy the site is through a day, and a day that may last minutes."""

from __future__ import annotations

import math
from dataclasses import dataclass

_OPENING = 9 / 24
"""A feed begins at nine in the morning, so that a demo does not begin with a silent night."""


@dataclass(frozen=True, slots=True)
class DayCurve:
    """A quiet night, a peak in the morning, a dip at noon and a peak in the afternoon; 1.0 on average.

    ``day_seconds`` is how long a whole day lasts. ``depth`` (0 ≤ depth < 1) is how far the night falls below the
    average: 0 makes a flat line.
    """

    day_seconds: float
    depth: float

    def busyness(self, elapsed_ms: float) -> float:
        """Factor on the average rate, ``elapsed_ms`` after the feed began."""
        angle = 2 * math.pi * (_OPENING + elapsed_ms / 1000 / self.day_seconds)
        return 1 - self.depth * (0.7 * math.cos(angle) + 0.3 * math.cos(2 * angle))

    @property
    def quietest(self) -> float:
        """The least factor of the day (at midnight)."""
        return 1 - self.depth
