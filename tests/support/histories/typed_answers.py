"""Checks of what each typed command answers, and counts of the commands by how they ended."""

from __future__ import annotations

import logging
import re
import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.spark.driver.query_watch import REFUSED_BATCH
from support.expected.named_commands import commands_in, faults
from support.places import REPOSITORY

if TYPE_CHECKING:
    from support.histories.typed_program import Answer

LOG: Final = logging.getLogger(__name__)
SAYS_NO: Final = frozenset({"diff", "doctor", "status", "spec"})
"""Commands whose exit code is their answer: they need no remedy."""
_ROW: Final = re.compile(r"^\| (\d+) \|", re.MULTILINE)
CODES: Final = frozenset(map(int, _ROW.findall((REPOSITORY / "docs" / "command-line.md").read_text()))) - {1, 2}
"""Exit codes that the page names, but for those of errors without a name and of mistyped options."""


@dataclass(slots=True)
class Answers:
    """Counts of the answers. ``hits``: kills and freezes of approved commands, by command, step and stage of record."""

    typed: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)

    def take(self, answer: Answer, *, counted: bool = True) -> Answer:
        """Check an answer, and keep count of it."""
        words, code = answer.words, answer.code
        end = "killed" if code is None else str(code)
        LOG.warning("  %6s %5.1f s  sessionizer %s", end, answer.seconds, shlex.join(words))
        self.typed[words[0]] += counted
        if code is None:
            self.killed[words[0]] += 1
        else:
            self.codes[words[0], code] += 1
            _require_named(answer)
        # of a batch that a stop refused Spark logs the traceback, and the driver says so
        assert "Traceback" not in answer.text or REFUSED_BATCH in answer.said, answer.text
        return answer

    def note_hit(self, how: str, answer_to: tuple[str, ...], step: str, stage: str) -> None:
        """Note that an approved command was ``how`` at ``step``, when its record had come to ``stage``."""
        LOG.warning("         %s at %r, record: %s", how, step, stage)
        self.hits[f"{answer_to[0]} {how}: {step} ({stage})"] += 1

    def log(self) -> None:
        """Log all counts."""
        LOG.warning("typed: %s, killed: %s, exit codes: %s", dict(self.typed), dict(self.killed), dict(self.codes))
        for hit, count in sorted(self.hits.items()):
            LOG.warning("HIT %3d %s", count, hit)


def require_pasteable(text: str) -> None:
    """Assert that each command that the text names can be typed."""
    wrong = [words for words in commands_in(text) if list(faults(words))]
    assert wrong == [], text


def _require_named(answer: Answer) -> None:
    code = answer.code
    if answer.words[0] == "diff":
        assert code in {0, 10, 11, 12}, answer.text
        return
    assert code in CODES, f"{answer.words}: {code}: {answer.text}"
    if code and answer.words[0] not in SAYS_NO:
        LOG.warning("         %s", [line for line in answer.said.splitlines() if line.startswith("error: ")])
        assert "remedy: " in answer.said or code == 3, answer.text
