"""The longest allowed silences, in milliseconds: one table for the command line, drivers and Airflow.

An installation sets those of ``Timeouts`` by SESSIONIZER_STARTUP_GRACE, _STALE_LIMIT, _STALE_ALERT and _LAG_ALERT.
"""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from sessionizer.home.clock import MINUTE, SECOND
from sessionizer.stream_spec.document.names import duration_from, variable_of

STARTUP_GRACE_MS: Final = 3 * MINUTE
"""Time for a start, or its first batch, to show progress, from the lease, launch or last progress of the start."""
STALE_AFTER_MS: Final = 150 * SECOND
"""Time without a beat or progress. Both come within a batch too, so neither its length nor the trigger counts."""
TAKEOVER_AFTER_MS: Final = 150 * SECOND
"""Silence after which an owner that cannot be seen from here counts as dead. One without its lease ends earlier."""
LAG_LIMIT_MS: Final = 15 * MINUTE
"""Time that the watermark may be behind the clock, beyond the spec's delay."""
STALE_ALERT_MS: Final = 10 * MINUTE
"""Time without work, whatever the reason, after which a stream is stale."""


class Timeouts(NamedTuple):
    """The limits of an installation, in ms."""

    startup_grace_ms: int = STARTUP_GRACE_MS
    stale_after_ms: int = STALE_AFTER_MS
    stale_alert_ms: int = STALE_ALERT_MS
    lag_alert_ms: int = LAG_LIMIT_MS

    @property
    def idle_limit_ms(self) -> int:
        """Ms without work until a stream is stale, because the supervisor handles a hang first."""
        return max(self.stale_alert_ms, 2 * self.stale_after_ms)


def read_configured_timeouts(environment: Mapping[str, str] = os.environ) -> Timeouts:
    """Return the installation's limits. Raises InvalidSpec for an invalid duration."""
    names = zip(Timeouts._fields, ("startup_grace", "stale_limit", "stale_alert", "lag_alert"), strict=True)
    set_ones = {field: name for field, name in names if variable_of(name) in environment}
    return Timeouts(**{field: duration_from(environment, name) for field, name in set_ones.items()})
