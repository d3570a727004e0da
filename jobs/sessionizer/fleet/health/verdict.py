"""The health of a stream in one word: the worst of the findings on its parts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.home.json_record import JsonObject


class HealthWord(StrEnum):
    """The health of a stream, from the best to the worst."""

    HEALTHY = "healthy"
    WARNING = "warning"
    """Something is not as usual, and mends itself."""
    UNKNOWN = "unknown"
    """What the stream does cannot be known from here."""
    DEGRADED = "degraded"
    """The stream works, but not as it should. A user must look."""
    DOWN = "down"
    """The stream should run and does not, and nothing is under way that starts it again."""


class Part(StrEnum):
    """The parts of a stream that are judged."""

    DRIVER = "driver"
    PROGRESS = "progress"
    WATERMARK = "watermark"
    SOURCE = "source"
    DISK = "disk"
    CANARY = "canary"
    SAVEPOINTS = "savepoints"
    SUPERVISION = "supervision"
    UPGRADE = "upgrade"


USUAL: Final = frozenset({"working", "idle"})
"""Rules of healthy streams between which a stream alternates every few seconds: no change worth telling."""
SEVERITY: Final = {word: number for number, word in enumerate(HealthWord)}
"""Number of each word, 0 for the best. Metrics send it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnhealthyPart:
    """A part that is not healthy, by ``rule``, ``since`` then (epoch ms, None if unknown).

    ``what`` says what is wrong, ``what_to_do`` what a user does about it. It is empty if nothing is to be done.
    """

    part: Part
    word: HealthWord
    rule: str
    what: str
    since: int | None = None
    what_to_do: str = ""

    @property
    def line(self) -> str:
        """The finding in a line. A note on a healthy stream has no word."""
        remedy = f" → {self.what_to_do}" if self.what_to_do else ""
        word = "" if self.word is HealthWord.HEALTHY else f"{self.word}: "
        return f"{word}{self.what}{remedy}"

    def to_json(self) -> JsonObject:
        """Return the fields by name."""
        return {
            "part": str(self.part),
            "word": str(self.word),
            "rule": self.rule,
            "since": self.since,
            "what": self.what,
            "what_to_do": self.what_to_do,
        }


@dataclass(frozen=True, slots=True)
class StreamHealth:
    """The findings on a stream, the worst first. ``calm`` is the rule by which it is healthy, if there are none."""

    findings: tuple[UnhealthyPart, ...] = ()
    calm: str = "working"

    @property
    def word(self) -> HealthWord:
        """The worst word."""
        return self.findings[0].word if self.findings else HealthWord.HEALTHY

    @property
    def rule(self) -> str:
        """The rule of the worst finding."""
        return self.findings[0].rule if self.findings else self.calm

    @property
    def label(self) -> str:
        """The word and its rule, for a list of tasks. A stream that works is ``healthy``, idle or not."""
        if not self.findings and self.calm in USUAL:
            return str(self.word)
        return f"{self.word}: {self.rule.replace('_', ' ')}"

    def to_json(self) -> JsonObject:
        """Return the word, its rule and all findings."""
        worst = self.findings[0] if self.findings else None
        return {
            "word": str(self.word),
            "severity": SEVERITY[self.word],
            "rule": self.rule,
            "part": str(worst.part) if worst else None,
            "since": worst.since if worst else None,
            "what": worst.what if worst else "",
            "what_to_do": worst.what_to_do if worst else "",
            "findings": [finding.to_json() for finding in self.findings],
        }


def weigh(findings: Iterable[UnhealthyPart | None], calm: str) -> StreamHealth:
    """Return the health by ``findings``. Of equal words the first one counts."""
    known = [finding for finding in findings if finding is not None]
    return StreamHealth(tuple(sorted(known, key=lambda each: -SEVERITY[each.word])), calm)
