"""The finding of one check of an installation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The weight of a finding."""

    OK = "ok"
    WARNING = "warning"
    """Works, or is not needed by every process."""
    PROBLEM = "problem"
    """No stream can run like that."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of the check ``name``: its ``level``, the fact that it ``found``, and the ``remedy``."""

    name: str
    level: Level
    found: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the finding as JSON."""
        return {"check": self.name, "level": str(self.level), "found": self.found, "remedy": self.remedy}


def fine(name: str, found: str) -> CheckResult:
    """Return a finding that needs nothing."""
    return CheckResult(name, Level.OK, found)


def warning(name: str, found: str, remedy: str) -> CheckResult:
    """Return a finding that may be meant."""
    return CheckResult(name, Level.WARNING, found, remedy)


def problem(name: str, found: str, remedy: str) -> CheckResult:
    """Return a finding that must be mended."""
    return CheckResult(name, Level.PROBLEM, found, remedy)
