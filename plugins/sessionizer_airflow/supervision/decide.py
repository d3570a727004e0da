"""The decision: a pure function of the situation, the record, the policy and the time (epoch ms)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.status.observation import State
from sessionizer_airflow.supervision.decisions import Adopt, Decision, GiveUp, Launch, Replace, StandBy, Wait
from sessionizer_airflow.supervision.ends import describe_end, failure_of, left_over, replacement
from sessionizer_airflow.supervision.history import is_gone_at, reason_to_give_up, with_failure
from sessionizer_airflow.supervision.wording import clock_time

if TYPE_CHECKING:
    from sessionizer.control.records.supervision_record import SupervisionRecord
    from sessionizer_airflow.supervision.policy import SupervisionPolicy
    from sessionizer_airflow.supervision.situation import Driver, Situation

EXIT_GRACE = 60_000
"""Ms that a process may take to end after its exit record: Spark shuts down in between."""
GO_ON = "then unpause this DAG: its next run starts with a full restart budget"


def decide(situation: Situation, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Decision:
    """What to do now. Never `Launch` while a process of the stream may still live."""
    decision = _decision(situation, record, policy, now_ms)
    # What could not be done is not tried again before its time, as long as the cause lasts.
    hindered = record.waiting_since is not None and now_ms < record.restart_at
    if hindered and isinstance(decision, Launch | Replace):
        return _backing_off(record)
    return decision


def _decision(situation: Situation, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Decision:
    driver = situation.driver
    if not situation.wanted:
        return _stand_by(situation, record, policy, now_ms)
    if driver is None:
        return Launch("no driver has run yet")
    if driver.state.is_live:
        return _judge_live(driver, record, policy, now_ms)
    if driver.present:
        return _judge_leaving(driver, now_ms)
    return _judge_ended(driver, record, policy, now_ms)


def _stand_by(situation: Situation, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Decision:
    """The stream is not wanted: its driver is asked to stop, and made to if it no longer listens."""
    driver, desired = situation.driver, situation.desired
    if driver is not None and driver.state is State.STALLED:
        return _judge_live(driver, record, policy, now_ms)
    asked = ", ".join(part for part in (desired.by and f"by {desired.by}", desired.why) if part)
    why = f"desired state is {desired.state}" + (f" ({asked})" if asked else "")
    listens = driver is not None and driver.state.is_live and not driver.stop_requested
    return StandBy(why, stop=driver.uid if driver is not None and listens else None)


def _judge_live(driver: Driver, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Decision:
    if driver.state is not State.STALLED:
        return Adopt(driver.uid, str(driver.state))
    gone_at = is_gone_at(record, driver.heard_ms, policy, now_ms)
    if driver.out_of_sight is not None and now_ms <= gone_at:
        where = f"driver {driver.uid} is on {driver.out_of_sight}, which cannot be seen from here"
        return Wait(gone_at + 1, f"{where}; it counts as gone if it gives no sign until {clock_time(gone_at)}")
    return replacement(driver, now_ms)


def _judge_leaving(driver: Driver, now_ms: int) -> Decision:
    """It has ended in its own words, or half of it is gone; a process is still there."""
    if driver.ending is not None and now_ms - driver.ending.at <= EXIT_GRACE:
        return Wait(driver.ending.at + EXIT_GRACE, f"driver {driver.uid} is leaving", orderly=True)
    return left_over(driver)


def _judge_ended(driver: Driver, record: SupervisionRecord, policy: SupervisionPolicy, now_ms: int) -> Decision:
    if driver.uid == record.settled_uid:
        return Launch(f"driver {driver.uid} was dealt with")
    failure = failure_of(driver)
    if failure is None:
        return Launch(describe_end(driver))
    record = with_failure(record, failure, policy, now_ms)
    if record.given_up:
        return GiveUp(reason_to_give_up(record, policy), f"{record.remedy}; {GO_ON}")
    return _backing_off(record) if now_ms < record.restart_at else Launch(record.last_failure)


def _backing_off(record: SupervisionRecord) -> Wait:
    if record.waiting_since is None:
        count = f"failure {record.failures} in a row"
    else:
        count = f"attempt {record.attempts} failed, waiting since {clock_time(record.waiting_since)}"
    return Wait(record.restart_at, f"{record.last_failure} ({count}). What to do: {record.remedy}")
