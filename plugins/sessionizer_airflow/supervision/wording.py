"""One line per change: what happened, and what comes next."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sessionizer.control.status.observation import State
from sessionizer_airflow.supervision.decisions import Adopt, Decision, GiveUp, Launch, Replace, StandBy, Wait

if TYPE_CHECKING:
    from sessionizer_airflow.supervision.situation import Situation

WORKING = frozenset({str(State.RUNNING), str(State.IDLE)})
"""A stream may alternate between these every few seconds: no change worth a line."""


def describe(decision: Decision, situation: Situation | None, now_ms: int) -> str:
    """The line for a decision made at `now_ms` (epoch)."""
    match decision:
        case Launch(why):
            return f"launching a driver: {why}"
        case Adopt(uid, state):
            return f"watching driver {uid}: {_word_for(state)}{_progress(situation)}"
        case Wait(until_ms, why):
            return f"waiting until {clock_time(until_ms)} ({max(0, until_ms - now_ms) / 1000:.0f} s): {why}"
        case Replace(uid, why, out_of_sight=out_of_sight):
            return f"replacing driver {uid}: {why}" if out_of_sight else f"ending driver {uid} by force: {why}"
        case GiveUp(reason, remedy):
            return f"giving up: {reason}. What to do: {remedy}"
        case StandBy(why, stop):
            asked = f"; driver {stop} is asked to stop" if stop else ""
            return f"standing by: {why}{asked}"


def subject(decision: Decision) -> tuple[str, ...]:
    """What a decision is about, without what changes all the time: a line is due when this changes."""
    match decision:
        case Adopt(uid, state):
            return ("adopt", uid, _word_for(state))
        case Wait(_, why) | StandBy(why, _):
            return (type(decision).__name__, why)
        case _:
            return (type(decision).__name__,)


def milestone(situation: Situation, now_ms: int) -> tuple[str, ...]:
    """Changes 1, 2, 4, 8 … minutes after a long batch began: so often a line is due about it."""
    driver = situation.driver
    if driver is None or driver.under_way is None or driver.under_way_since is None:
        return ()
    minutes = (now_ms - driver.under_way_since) // 60_000
    return (f"a batch for {2 ** (minutes.bit_length() - 1)} m and more",) if minutes > 0 else ()


def _word_for(state: str) -> str:
    return "working" if state in WORKING else state.lower()


def _progress(situation: Situation | None) -> str:
    driver = situation.driver if situation else None
    if driver is not None and driver.under_way is not None:
        return f", {driver.under_way}"
    return "" if driver is None or driver.batch_id is None else f", batch {driver.batch_id}"


def clock_time(ms: int) -> str:
    """A moment (epoch ms) as people in any time zone read it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S UTC")
