"""What the supervisor may do next, each with what a person wants to know about it."""

from __future__ import annotations

from dataclasses import dataclass


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
    """The driver `uid` exists and does not work: end it by force, so that another may start."""

    uid: str
    why: str


@dataclass(frozen=True)
class GiveUp:
    """No restart can help, or too many did not: a person has to act."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class StandBy:
    """The stream is not wanted now. `drain` is the uid of a driver that still has to be asked to stop."""

    why: str
    drain: str | None = None


Decision = Launch | Adopt | Wait | Replace | GiveUp | StandBy
