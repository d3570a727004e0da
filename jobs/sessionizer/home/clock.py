"""The wall clock, as all control files write it."""

from __future__ import annotations

import time


def epoch_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000
