"""The decision: a pure function of the situation, the history, the policy and the time (epoch ms)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.end_remedies import KILLED, remedy_of_end
from sessionizer.control.observation import State
from sessionizer_airflow.supervision.decisions import Adopt, Decision, GiveUp, Launch, Replace, StandBy, Wait

if TYPE_CHECKING:
    from sessionizer_airflow.supervision.history import History
    from sessionizer_airflow.supervision.policy import SupervisionPolicy
    from sessionizer_airflow.supervision.situation import Driver, Situation

EXIT_GRACE = 60_000
"""Ms that a process may take to end after its exit record: Spark shuts down in between."""
LINE_LIMIT = 300


def decide(situation: Situation, history: History, policy: SupervisionPolicy, now_ms: int) -> Decision:
    """What to do now. Never `Launch` while a process of the stream may still live."""
    driver = situation.driver
    if not situation.wanted:
        return _stand_by(situation, now_ms)
    if driver is None:
        return Launch("no driver has run yet")
    if driver.state.is_live:
        return _judge_live(driver, now_ms)
    if driver.present:
        return _judge_leaving(driver, now_ms)
    return _judge_ended(driver, history, policy, now_ms)


def _stand_by(situation: Situation, now_ms: int) -> Decision:
    """The stream is not wanted: its driver is asked to stop, and made to if it no longer listens."""
    driver, desired = situation.driver, situation.desired
    if driver is not None and driver.state is State.STALLED:
        return _judge_live(driver, now_ms)
    asked = ", ".join(part for part in (desired.by and f"by {desired.by}", desired.why) if part)
    why = f"desired state is {desired.state}" + (f" ({asked})" if asked else "")
    listens = driver is not None and driver.state.is_live and not driver.stop_requested
    return StandBy(why, drain=driver.uid if driver is not None and listens else None)


def _judge_live(driver: Driver, now_ms: int) -> Decision:
    if driver.state is not State.STALLED:
        return Adopt(driver.uid, str(driver.state))
    if driver.torso:
        return Replace(driver.uid, "its JVM is gone")
    if driver.batch_id is None:
        why = f": {driver.start_problem.said}" if driver.start_problem else ""
        return Replace(driver.uid, f"no batch {_seconds(now_ms - driver.launched_ms)} after its launch{why}")
    return Replace(driver.uid, f"silent for {_seconds(now_ms - driver.heard_ms)}, last after batch {driver.batch_id}")


def _judge_leaving(driver: Driver, now_ms: int) -> Decision:
    """It has ended in its own words, or half of it is gone; a process is still there."""
    if driver.ending is None:
        return Replace(driver.uid, "only a part of it is left")
    if now_ms - driver.ending.at > EXIT_GRACE:
        return Replace(driver.uid, "its process did not end after its exit record")
    return Wait(driver.ending.at + EXIT_GRACE, f"driver {driver.uid} is leaving", orderly=True)


def _judge_ended(driver: Driver, history: History, policy: SupervisionPolicy, now_ms: int) -> Decision:
    if driver.uid == history.forgiven_uid:
        return Launch(f"driver {driver.uid} was dealt with")
    if driver.ended_on_purpose:
        return Launch(describe_end(driver))
    if driver.restart_is_useless:
        return GiveUp(describe_end(driver), _remedy(driver))
    return _judge_failed(driver, history.charge(driver, describe_end(driver), policy, now_ms), policy, now_ms)


def _judge_failed(driver: Driver, history: History, policy: SupervisionPolicy, now_ms: int) -> Decision:
    if history.failures > policy.restart_budget:
        return GiveUp(f"{history.failures} failures in a row, the last: {history.last_failure}", _remedy(driver))
    restart_ms = history.last_failure_ms + policy.backoff(history.failures)
    if now_ms < restart_ms:
        why = f"{history.last_failure} (failure {history.failures} in a row). What to do: {mending(driver)}"
        return Wait(restart_ms, why)
    return Launch(history.last_failure)


def _remedy(driver: Driver) -> str:
    look = f" (its log: {driver.log})" if driver.log else ""
    return f"{mending(driver)}{look}; then unpause this DAG: its next run starts with a full restart budget"


def mending(driver: Driver) -> str:
    """What to do about the way in which the driver ended, or never began."""
    if driver.start_problem:
        return driver.start_problem.remedy
    return remedy_of_end(driver.ending.error_type) if driver.ending else KILLED


def failed(driver: Driver | None) -> bool:
    """Whether the driver ended in a way that counts against the restart budget."""
    return driver is not None and not driver.state.is_live and not driver.present and not driver.ended_on_purpose


def describe_end(driver: Driver) -> str:
    """How the driver ended, in one line."""
    ending = driver.ending
    if driver.start_problem is not None:
        return f"driver {driver.uid} did not start: {driver.start_problem.said}"
    if ending is None:
        return f"driver {driver.uid} vanished without an exit record"
    cause = ": ".join(part for part in (ending.error_type, _first_line(ending.message or "")) if part)
    return f"driver {driver.uid} {ending.outcome}" + (f" ({cause})" if cause else "")


def _first_line(message: str) -> str:
    """What fits into a line of a log; the rest is in the exit record and the driver's log."""
    line = message.partition("\n")[0]
    return line if len(line) <= LINE_LIMIT else line[:LINE_LIMIT] + "…"


def _seconds(ms: int) -> str:
    return f"{ms // 1000} s"
