"""The type of a cause: its name, whether a retry helps, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """The effect of a retry."""

    TERMINAL = "terminal"
    """A retry ends the same way until the user has changed something, so none is made."""
    TRANSIENT = "transient"
    """The surroundings explain it. Retries continue for as long as they last, and are never given up."""
    UNCLEAR = "unclear"
    """A retry may help. If several in a row do not, the operator must look."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of an error or of a driver's end.

    ``name`` is the word in exit records. ``called`` is its name in a sentence. ``remedy`` is a line of advice.
    ``for_good``: the stream is over, and nothing is to be started again.
    """

    name: str
    called: str
    verdict: Verdict
    remedy: str
    for_good: bool = False


TERMINAL, TRANSIENT, UNCLEAR = Verdict

_NAMELESS: Final = " …`"
"""End of a command in a remedy that takes the name of the stream."""


def name_stream(remedy: str, stream: str) -> str:
    """Return the ``remedy`` with its commands as they are typed for ``stream``."""
    return remedy.replace(_NAMELESS, f" {stream}`")


PLAIN_SPARK: Final = (
    "set SESSIONIZER_PLAIN_SPARK=1 where drivers are started. They then use public interfaces only: slower, and as "
    "exact. Or return to the earlier Spark and Delta"
)
