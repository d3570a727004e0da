"""What a cause is: how it is called, whether trying again helps, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """Whether trying again helps."""

    TERMINAL = "terminal"
    """It would end the same way until somebody has changed something: it is not tried again."""
    TRANSIENT = "transient"
    """Its surroundings explain it. It is tried again for as long as they last, and never given up."""
    UNCLEAR = "unclear"
    """Another try may help. If several in a row do not, somebody has to look."""


@dataclass(frozen=True, slots=True)
class Cause:
    """``name`` is what exit records say; ``called`` is its name in a sentence; ``remedy`` is one line.

    ``for_good``: the stream is over, and nothing is to be started again.
    """

    name: str
    called: str
    verdict: Verdict
    remedy: str
    for_good: bool = False


TERMINAL, TRANSIENT, UNCLEAR = Verdict

_NAMELESS: Final = " …`"
"""How a command ends, in a remedy, that takes the name of the stream."""


def with_name(remedy: str, stream: str) -> str:
    """The ``remedy`` with its commands as they are typed for ``stream``."""
    return remedy.replace(_NAMELESS, f" {stream}`")


PLAIN_SPARK: Final = (
    "set SESSIONIZER_PLAIN_SPARK=1 where drivers are started from: the public way everywhere, slower and as exact; or "
    "go back to the Spark and Delta of before"
)
