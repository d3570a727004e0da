"""Causes: what each is called, whether a retry helps, what to do. Here are those of a driver that others ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sessionizer.errors import RetryEffect


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of an error or of a driver's end.

    ``name`` is the word in exit records. ``called`` is its name in a sentence. ``remedy`` is a line of advice.
    ``for_good``: the stream is over, and nothing is to be started again. ``of_any_lineage``: no rollback helps.
    """

    name: str
    called: str
    verdict: RetryEffect
    remedy: str
    for_good: bool = False
    of_any_lineage: bool = False


TERMINAL, TRANSIENT, UNCLEAR = RetryEffect

_COMMAND: Final = re.compile(r"`sessionizer [^`]*`")
_NAMELESS: Final = "…"
"""Place of the stream's name in a command of a remedy."""


def name_stream(remedy: str, stream: str) -> str:
    """Return the ``remedy`` with its commands as they are typed for ``stream``."""
    return _COMMAND.sub(lambda command: command[0].replace(_NAMELESS, stream, 1), remedy)


KILLED: Final = Cause(
    "killed",
    "it left no exit record",
    UNCLEAR,
    "find out what ended it: the machine's out-of-memory killer, a user, or a reboot",
)
HUNG: Final = Cause("hung", "it was silent", UNCLEAR, "look in its log at the time when its heartbeats ended")
NO_PROGRESS: Final = Cause(
    "no_progress", "its batch made no progress", UNCLEAR,
    "look at the running batch in the Spark UI or in its log: a task may hang or wait",
)  # fmt: skip
NO_START: Final = Cause("no_start", "it never began a batch", UNCLEAR, "look in its log for what it waited for")
HALF_GONE: Final = Cause(
    "half_gone", "one of its processes had ended", UNCLEAR, "look in its log for a lack of memory or a kill"
)
NOT_LEAVING: Final = Cause("not_leaving", "it did not end", UNCLEAR, "look in its log for what kept it from ending")
OUT_OF_SIGHT: Final = Cause(
    "out_of_sight", "its machine is gone", UNCLEAR,
    "check whether the machine or container that it ran on still exists",
)  # fmt: skip
PROCESS_CAUSES: Final = (KILLED, HUNG, NO_PROGRESS, NO_START, HALF_GONE, NOT_LEAVING, OUT_OF_SIGHT)
"""Causes for drivers that did not end by themselves, or left no exit record."""
