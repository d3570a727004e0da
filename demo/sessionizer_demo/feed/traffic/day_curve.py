"""The traffic of the site through a day, which may last minutes."""

from __future__ import annotations

import math
from dataclasses import dataclass

_OPENING = 9 / 24
"""A feed begins at nine in the morning, so that a demo does not begin with a silent night."""


@dataclass(frozen=True, slots=True)
class DayCurve:
    """A curve with a quiet night, a peak in the morning, a dip at noon and a peak in the afternoon.

    Its average is 1.0. ``day_seconds`` is the length of a whole day. ``depth`` (0 ≤ depth < 1) is the fall of the night
    below the average. With 0 the curve is flat.
    """

    day_seconds: float
    depth: float

    def busyness(self, elapsed_ms: float) -> float:
        """Return the factor on the average rate, ``elapsed_ms`` after the feed began."""
        angle = 2 * math.pi * (_OPENING + elapsed_ms / 1000 / self.day_seconds)
        return 1 - self.depth * (0.7 * math.cos(angle) + 0.3 * math.cos(2 * angle))

    @property
    def quietest(self) -> float:
        """The lowest factor of the day, at midnight."""
        return 1 - self.depth
