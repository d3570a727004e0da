"""What whoever starts a driver may choose. Free of Spark, so that the command line can offer it without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Until(StrEnum):
    """When a driver ends by itself."""

    STOPPED = "stopped"
    """Never: only when asked to."""
    CAUGHT_UP = "caught-up"
    """When it has read what there is now; open sessions stay open."""
    DRAINED = "drained"
    """When it has read what there is now and closed every session: for a bounded input. The stream is over then."""


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """``master`` is for a program started as plain Python; under spark-submit it is None.

    ``progress_every_s``: at most one line about a batch in so many seconds. ``apply``: what the file says is wanted,
    though the lineage runs by another spec. ``accept_tables``: go on with the tables as they are.
    """

    uid: str
    until: Until = Until.STOPPED
    master: str | None = None
    progress_every_s: float = 10.0
    apply: bool = False
    accept_tables: bool = False
