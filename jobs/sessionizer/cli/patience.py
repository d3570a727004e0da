"""How long a silence may last, as the installation sets it for Airflow and the command line alike."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from sessionizer.control.status.patience import STALE_AFTER_MS, STARTUP_GRACE_MS
from sessionizer.stream_spec.environment import duration_from, variable_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Patience(NamedTuple):
    """As `read_observation` takes them, in ms."""

    startup_grace_ms: int
    stale_after_ms: int


def patience(environment: Mapping[str, str] = os.environ) -> Patience:
    """From SESSIONIZER_STARTUP_GRACE and SESSIONIZER_STALE_LIMIT.

    Raises InvalidSpec for what is no duration.
    """
    return Patience(
        _either(environment, "startup_grace", STARTUP_GRACE_MS),
        _either(environment, "stale_limit", STALE_AFTER_MS),
    )


def _either(environment: Mapping[str, str], name: str, otherwise: int) -> int:
    return duration_from(environment, name) if variable_of(name) in environment else otherwise
