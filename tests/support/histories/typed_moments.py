"""Moments at which a typed command is killed or frozen: after a line that tells one of its steps, or a while later."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from support.histories.typed_program import WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from support.histories.typed_program import Running

KILLED: Final = 0.3
"""Share of the commands that are killed."""
KILLED_IF_APPROVED: Final = 0.9
"""Share of the approved commands, and of those that resume one, that are killed or frozen."""
KILLED_PLANS: Final = 0.05
"""Share of the plans, which write nothing."""
QUICK: Final = frozenset({"status", "diff", "spec", "abandon", "promote", "stop", "tables"})
"""Commands that start no Spark."""
LINES: Final = {
    "restore": 10, "rollback": 3, "rescale": 7, "switch": 7, "apply": 3, "upgrade": 3, "seed": 10, "savepoint": 4,
    "run": 3,
}  # fmt: skip
"""Number of lines by which each command tells its steps, with rows to delete in two tables."""
OF_NEW_LINEAGE: Final = 6
"""Lines more, if a command makes a new lineage only when asked to."""
ROWS: Final = frozenset({"sessions", "quarantine", "late_events"})
"""Steps that a command tells once it has deleted rows of a table, or brought some back."""
_STEP: Final = re.compile(
    r"^(?:starting Spark|driver (?=.* asked to stop)|savepoint(?=: )|taking the history|new lineage: \w+"
    r"|\w+(?=: [\d,]+ rows? (?:brought back|deleted))|lineage: the approved spec|lineage (?=\S+ failed)|tables(?=: )"
    r"|saving lineage|done: \w+|query starts|draining lineage)",
    re.MULTILINE,
)
_LOOK_EVERY_S: Final = 0.005


def told_steps(said: str) -> list[str]:
    """The steps that the lines of a command tell, in order."""
    return _STEP.findall(said)


def is_approved(words: Sequence[str]) -> bool:
    """Whether the command changes the state of the stream."""
    return "--approve" in words


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment ``after_s`` seconds after the command has told so many ``lines``, one ``of`` these steps among them."""

    lines: int
    after_s: float
    of: frozenset[str] = frozenset()

    def wait_for(self, running: Running) -> bool:
        """Wait for the moment. Returns False if the command has ended before."""
        deadline = time.monotonic() + WITHIN_S
        while not self._has_come(told_steps(running.said)) and running.process.poll() is None:
            assert time.monotonic() < deadline, f"{running.words} takes too long: {running.said[-4_000:]}"
            time.sleep(_LOOK_EVERY_S)
        try:
            running.process.wait(self.after_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _has_come(self, told: list[str]) -> bool:
        return len(told) >= self.lines and (not self.of or not self.of.isdisjoint(told))


def draw_moment(chance: Random, words: Sequence[str]) -> Moment | None:
    """Draw the moment at which a command is killed or frozen, None if it may run to its end."""
    share = KILLED_IF_APPROVED if is_approved(words) else KILLED_PLANS if "--json" in words else KILLED
    if chance.random() >= share:
        return None
    if words[0] in QUICK:
        return Moment(0, chance.uniform(0.05, 2))
    lines = LINES.get(words[0], 1) + OF_NEW_LINEAGE * ("--new-lineage" in words)
    line = chance.randint(1, lines) if "--json" not in words else 1
    if chance.random() < 0.5:
        return Moment(line, 0)
    return Moment(line, chance.uniform(0, 14 if line == 1 else 2))


def draw_moment_of_rows(chance: Random) -> Moment:
    """Draw the moment at which a command is hit that has changed the rows of a table, but not of all."""
    return Moment(0, chance.choice([0, chance.uniform(0, 1)]), ROWS)


def draw_rollback_moment(chance: Random) -> Moment:
    """Draw the moment at which a driver is killed that rolls back on its own."""
    return Moment(chance.randint(1, 4), chance.choice([0, chance.uniform(0, 3), chance.uniform(0, 8)]))
