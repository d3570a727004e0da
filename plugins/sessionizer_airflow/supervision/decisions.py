"""What the supervisor may do next, each with what a person wants to know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessionizer.causes.table import Cause


@dataclass(frozen=True)
class Launch:
    """No driver is there: start one. `why` says what became of the last."""

    why: str


@dataclass(frozen=True)
class Adopt:
    """The driver `uid` lives: watch it."""

    uid: str
    phase: str


@dataclass(frozen=True)
class Wait:
    """Do nothing before `until_ms` (epoch). It is `orderly` when nothing has failed."""

    until_ms: int
    why: str
    orderly: bool = False


@dataclass(frozen=True)
class Replace:
    """The driver `uid` exists and does not work: take its right to write, so that another may start.

    It is ended by force as well, unless it is `out_of_sight`: then it has ended by itself, or can do no harm.
    """

    uid: str
    why: str
    cause: Cause
    out_of_sight: bool = False


@dataclass(frozen=True)
class GiveUp:
    """No restart can help, or too many did not: a person has to act."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class StandBy:
    """The stream is not wanted now. `stop` is the uid of a driver that still has to be asked to stop."""

    why: str
    stop: str | None = None


Decision = Launch | Adopt | Wait | Replace | GiveUp | StandBy
