"""Upgrades of many streams in one maintenance window: which begin next, in which order, and when no more begin."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AT_ONCE: Final = "SESSIONIZER_UPGRADES_AT_ONCE"
STOP_AFTER: Final = "SESSIONIZER_UPGRADES_STOP_AFTER"


class UpgradeState(StrEnum):
    """The state of a stream's upgrade in its open window."""

    WAITS = "waits"
    RUNS = "runs"
    """It has begun, and the stream has not proven itself yet."""
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A ``stream`` whose window is open. ``asks``: a user approves its plan, so users set the pace."""

    stream: str
    wave: int
    state: UpgradeState
    asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The pace of a platform: at most so many upgrades ``at_once``, and none after so many failures."""

    at_once: int = 1
    stop_after: int = 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the variables ``SESSIONIZER_UPGRADES_…``. Raises InvalidSpec."""
        return cls(at_once=_read_number(environment, AT_ONCE), stop_after=_read_number(environment, STOP_AFTER))


@dataclass(frozen=True, slots=True)
class NextUpgrades:
    """The streams whose upgrades ``begin`` now, by name. ``held``: why none begins although some wait."""

    begin: tuple[str, ...] = ()
    held: str | None = None


def choose_next(members: Sequence[Member], pace: Pace) -> NextUpgrades:
    """Choose the upgrades that begin now: of the lowest wave that is not over, by the streams' names.

    Upgrades that ask a user do not count among those at once, because each of them waits for its answer.
    """
    waiting = [each for each in members if each.state is UpgradeState.WAITS]
    failed = sorted(each.stream for each in members if each.state is UpgradeState.FAILED)
    if waiting and len(failed) >= pace.stop_after:
        left = count_text(len(waiting), "upgrade")
        remedy = "Mend it and clear its run, or wait for the next window"
        return NextUpgrades(held=f"{left} held back, because {', '.join(failed)} failed in this window. {remedy}")
    running = [each for each in members if each.state is UpgradeState.RUNS]
    wave = min((each.wave for each in (*waiting, *running)), default=0)
    due = sorted((each for each in waiting if each.wave == wave), key=lambda each: each.stream)
    free = max(0, pace.at_once - sum(not each.asks for each in running))
    begin = [each.stream for each in due if each.asks] + [each.stream for each in due if not each.asks][:free]
    if waiting and not begin:
        names = ", ".join(sorted(each.stream for each in running))
        return NextUpgrades(held=f"{count_text(len(waiting), 'upgrade')} held back until {names} is done")
    return NextUpgrades(tuple(begin))


def _read_number(environment: Mapping[str, str], name: str) -> int:
    given = environment.get(name, "1")
    if not given.isdecimal() or int(given) == 0:
        raise InvalidSpec(name, given, "a whole number from 1 on")
    return int(given)
