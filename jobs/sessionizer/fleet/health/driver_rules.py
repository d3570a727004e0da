"""Rules on the driver. Pure: facts in, a finding or None out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import cause_of
from sessionizer.control.records.desired_state import DesiredState
from sessionizer.control.status.driver_status import Stall, State
from sessionizer.fleet.health.facts import ACTED_WITHIN_MS, has_looked
from sessionizer.fleet.health.supervision_rules import DRAINED, correct_spec, has_newer_driver, needs_supervisor
from sessionizer.fleet.health.verdict import HealthWord, Part, UnhealthyPart
from sessionizer.home.clock import clock_time, describe_duration
from sessionizer.home.names import Verb, dag_id
from sessionizer.redaction import redact

if TYPE_CHECKING:
    from sessionizer.control.records.airflow_records import SupervisionRecord
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.fleet.health.facts import HealthFacts


def judge_driver(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge whether the driver is as desired."""
    seen = facts.seen
    if seen is None:
        return _driver(
            HealthWord.UNKNOWN, "unreadable", facts.unseen or "its records cannot be read", None, facts.advice
        )
    if seen.damage or facts.damage:
        what = str(seen.damage[0] if seen.damage else facts.damage)
        return _driver(HealthWord.UNKNOWN, "damaged_record", what, None, _how(facts))
    if seen.desired.state is DesiredState.MAINTENANCE or facts.unfinished is not None:
        return None  # the command has the stream: a rule of supervision judges it
    if seen.desired.state is DesiredState.STOPPED:
        return _judge_unwanted(facts, seen)
    if seen.state.is_live:
        return _judge_live(facts, seen)
    return None if facts.is_drained else _judge_absent(facts, seen)


def _judge_unwanted(facts: HealthFacts, seen: DriverStatus) -> UnhealthyPart | None:
    if not seen.state.is_live:
        return None
    if seen.state is State.STOPPING or seen.stop_requested:
        return _driver(HealthWord.WARNING, "stopping", "it stops at the next batch boundary", seen.desired.at)
    if facts.draining_since is not None:
        return _judge_drain(facts)
    word = HealthWord.WARNING if facts.now - seen.desired.at <= ACTED_WITHIN_MS else HealthWord.DEGRADED
    what = f"it runs, though its desired state is {seen.desired.state}"
    return _driver(word, "not_stopped", what, seen.desired.at, f"`sessionizer stop {facts.name}`")


def _judge_live(facts: HealthFacts, seen: DriverStatus) -> UnhealthyPart | None:
    if seen.state is State.STARTING:
        since = seen.lease.acquired_at if seen.lease else None
        return _driver(HealthWord.WARNING, "starting", "a driver starts", since)
    if seen.state is State.STOPPING:
        what = "its driver stops" if facts.paused else "its driver stops, and another one follows"
        return _driver(HealthWord.WARNING, "restarting", what, None)
    if seen.state is not State.STALLED or seen.stall is Stall.NO_PROGRESS:
        return _judge_drain(facts)
    silent = "no sign yet" if seen.age_ms is None else f"no sign for {describe_duration(seen.age_ms)}"
    since = None if seen.age_ms is None else facts.now - seen.age_ms
    return _driver(HealthWord.DEGRADED, "silent", silent, since, _how(facts))


def _judge_drain(facts: HealthFacts) -> UnhealthyPart | None:
    if facts.draining_since is None:
        return None
    what = "it drains: every session is closed for good, and then the stream is over"
    return _driver(HealthWord.WARNING, "draining", what, facts.draining_since)


def _judge_absent(facts: HealthFacts, seen: DriverStatus) -> UnhealthyPart | None:
    """Judge a stream that should run and has no driver: on its way back, or down."""
    record, since = facts.supervision, _gone_since(facts, seen)
    # after a command a supervisor's records tell of no launch
    supervised = record is not None or seen.launch is not None or has_looked(facts.looked_at, facts.now)
    if seen.state is State.STOPPED and not seen.desired.at and not supervised:
        return None  # started by hand, and ended as it should: no user ever wanted more
    if record is not None and record.given_up and not has_newer_driver(seen, record):
        return None  # a rule of supervision says it
    if facts.paused and facts.problem is None and needs_supervisor(seen):
        return None  # as above: no driver follows
    if facts.problem is not None and seen.state is not State.NEVER_STARTED:
        what = f"its driver is {seen.state.lower()}, and a broken spec has no DAG that starts another one"
        return _driver(HealthWord.DOWN, "no_driver", what, since, correct_spec(facts))
    if record is not None and record.restart_at > facts.now:
        return _judge_waiting(facts, record)
    return _judge_gone(facts, seen, since, supervised=supervised)


def _judge_gone(facts: HealthFacts, seen: DriverStatus, since: int | None, *, supervised: bool) -> UnhealthyPart:
    """Judge a stream that should run, and whose next driver is due."""
    record, has_run = facts.supervision, seen.state is not State.NEVER_STARTED
    what = f"its driver is {seen.state.lower()}" if has_run else "no driver has run yet"
    if not has_run and (record is None or not record.last_failure_ms):
        return _driver(HealthWord.UNKNOWN, "never_started", what, None, _start(facts.name))
    if supervised and since is not None and facts.now - since <= ACTED_WITHIN_MS:
        return _driver(HealthWord.WARNING, "restarting", f"{what}, and another one follows", since)
    return _driver(HealthWord.DOWN, "no_driver", what, since, _how(facts) or _start(facts.name))


def _judge_waiting(facts: HealthFacts, record: SupervisionRecord) -> UnhealthyPart:
    until, remedy = clock_time(record.restart_at), name_stream(record.remedy, facts.name)
    failed = redact(record.last_failure)
    if record.waiting_since is not None:
        called = cause_of(record.cause).called or failed
        what = f"it waits: {called}. It is tried again at {until}"
        return _driver(HealthWord.WARNING, "waiting", what, record.waiting_since, remedy)
    what = f"it backs off until {until} after failure {record.failures} in a row: {failed}"
    return _driver(HealthWord.WARNING, "backing_off", what, record.last_failure_ms, remedy)


def describe_calm(facts: HealthFacts) -> str:
    """Return the rule by which a stream without findings is healthy."""
    seen = facts.seen
    if facts.is_drained:
        return DRAINED
    if seen is not None and not seen.state.is_live:
        return "stopped"
    return "idle" if seen is not None and seen.state is State.IDLE else "working"


def _gone_since(facts: HealthFacts, seen: DriverStatus) -> int | None:
    if seen.exit_record is not None:
        return seen.exit_record.at
    if seen.state is State.NEVER_STARTED and facts.supervision is not None:
        return facts.supervision.restart_at
    return None if seen.age_ms is None else facts.now - seen.age_ms


def _how(facts: HealthFacts) -> str:
    return facts.advice or ""


def _start(name: str) -> str:
    return f"unpause {dag_id(name, Verb.SUPERVISE)}, or `sessionizer run {name}`"


def _driver(word: HealthWord, rule: str, what: str, since: int | None, what_to_do: str | None = "") -> UnhealthyPart:
    return UnhealthyPart(part=Part.DRIVER, word=word, rule=rule, what=what, since=since, what_to_do=what_to_do or "")
