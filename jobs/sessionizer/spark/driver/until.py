"""When a driver ends by itself. Free of Spark, so that the command line can offer the choice without loading it."""

from __future__ import annotations

from enum import StrEnum


class Until(StrEnum):
    """When a driver ends by itself."""

    STOPPED = "stopped"
    """Never: only when asked to."""
    CAUGHT_UP = "caught-up"
    """When it has read what there is now; open sessions stay open."""
    DRAINED = "drained"
    """When it has read what there is now and closed every session: for a bounded input. The stream is over then."""
