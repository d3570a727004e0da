"""The wall clock, as all control files write it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def epoch_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def clock_time(ms: int) -> str:
    """A moment (epoch ms) as people in any time zone read it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S UTC")
