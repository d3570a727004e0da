"""How long a silence may last: the one table of the command line, of drivers and of Airflow. Milliseconds.

An installation sets the first two by SESSIONIZER_STARTUP_GRACE and SESSIONIZER_STALE_LIMIT.
"""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND

STARTUP_GRACE_MS: Final = 3 * MINUTE
"""From the lease (or launch) until the first batch shows progress: Spark's start, plus reading the state."""

STALE_AFTER_MS: Final = 150 * SECOND
"""Without a beat, or without progress. A driver beats and shows progress within a batch too: neither the length of a
batch nor the trigger interval counts."""

TAKEOVER_AFTER_MS: Final = 150 * SECOND
"""Silence after which an owner of the lease that cannot be observed from here counts as dead.

A driver that cannot reach its lease ends itself earlier.
"""
