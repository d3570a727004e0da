"""Options for the start of a driver. Free of Spark, so that the command line can offer them without loading it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Until(StrEnum):
    """The moment at which a driver ends by itself."""

    STOPPED = "stopped"
    """Never, only when asked to stop."""
    CAUGHT_UP = "caught-up"
    """After it has read all that the source has now. Open sessions stay open."""
    DRAINED = "drained"
    """After it has read all that the source has now and closed every session, for a bounded input.

    The stream is over then.
    """


WILL_DRAIN: Final = (
    "when the stream has read what is there now, every session is closed for good, and the stream is over. "
    "To resume it later, stop it now and use --until caught-up"
)


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """Options of a driver. ``master`` is for a program started as plain Python, and None under spark-submit.

    ``progress_every_s``: at most one line about a batch in so many seconds. ``apply``: use the spec in the file
    although the lineage runs by another one. ``accept_tables``: go on with the tables as they are.
    """

    uid: str
    until: Until = Until.STOPPED
    master: str | None = None
    progress_every_s: float = 10.0
    apply: bool = False
    accept_tables: bool = False
