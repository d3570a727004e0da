"""Rules on the supervision of a stream: its spec, its commands, and the supervisor in Airflow. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.causes.cause import name_stream
from sessionizer.control.records.desired_state import DesiredState
from sessionizer.fleet.health.facts import ACTED_WITHIN_MS
from sessionizer.fleet.health.verdict import HealthWord, Part, UnhealthyPart
from sessionizer.home.clock import describe_duration
from sessionizer.home.names import Verb, dag_id
from sessionizer.redaction import redact

if TYPE_CHECKING:
    from sessionizer.control.records.airflow_records import SupervisionRecord
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.fleet.health.facts import HealthFacts

DRAINED: Final = "drained"
"""The rule of a stream that is over: it needs no driver and no supervisor."""


def judge_supervision(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge whether the stream has a supervisor that acts, a spec, and no stuck command."""
    seen, unfinished = facts.seen, facts.unfinished
    if seen is None:
        return None
    if unfinished is not None:
        since = seen.desired.at or None
        left = has_given_up(facts, seen) and not unfinished.is_at_work
        if left or unfinished.is_unattended(facts.now):
            return _supervision(HealthWord.DOWN, "stuck_command", unfinished.standing, since, unfinished.go_on)
        going_on = "" if unfinished.is_at_work else unfinished.what_to_do
        return _supervision(HealthWord.WARNING, "command", unfinished.standing, since, going_on)
    if facts.is_orphan:
        how = f"run `sessionizer stop {facts.name}`, or put its spec back"
        return _supervision(HealthWord.DEGRADED, "orphan", "its driver runs without a spec", None, how)
    return _judge_given_up(facts, seen) or _judge_supervisor(facts, seen) or _judge_spec(facts)


def has_given_up(facts: HealthFacts, seen: DriverStatus) -> bool:
    """Whether the supervisor has given up a stream that should run, and no user has started a driver since."""
    record = facts.supervision
    if seen.desired.state is not DesiredState.RUNNING or record is None or facts.is_drained:
        return False
    return record.given_up and not has_newer_driver(seen, record)


def _judge_given_up(facts: HealthFacts, seen: DriverStatus) -> UnhealthyPart | None:
    record = facts.supervision
    if record is None or not has_given_up(facts, seen):
        return None
    what = f"given up: {redact(record.last_failure)}"
    going_on = f"{name_stream(record.remedy, facts.name)}, then unpause {dag_id(facts.name, Verb.SUPERVISE)}"
    return _supervision(HealthWord.DOWN, "given_up", what, record.last_failure_ms or None, going_on)


def _judge_spec(facts: HealthFacts) -> UnhealthyPart | None:
    if facts.problem is None:
        return None
    return _supervision(HealthWord.DEGRADED, "invalid_spec", facts.problem, None, correct_spec(facts))


def correct_spec(facts: HealthFacts) -> str:
    """Return the remedy of a broken spec. The advice begins with the problem."""
    return (facts.advice or "").removeprefix(f"{facts.problem} → ")


def _judge_supervisor(facts: HealthFacts, seen: DriverStatus) -> UnhealthyPart | None:
    """Judge whether the supervisor in Airflow acts: its DAG is not paused, and it has looked lately."""
    if facts.is_drained:
        return None
    if facts.paused and facts.problem is None:
        return _judge_pause(facts.name, seen)
    # a driver that was adopted by a watch needs another one, and has no launch
    acted_at = facts.watched_until if facts.looked_at is None and seen.state.is_live else facts.looked_at
    is_adopted = seen.desired.state is DesiredState.RUNNING and facts.watched_until is not None
    if acted_at is None or not (is_adopted or needs_supervisor(seen)):
        return None
    silence = facts.now - acted_at
    if silence <= ACTED_WITHIN_MS:
        return None
    what = f"no supervisor has looked at it for {describe_duration(silence)}: {_so(seen)}"
    how = _resume(facts.name) if facts.problem is None else correct_spec(facts)  # it has no DAG to unpause
    return _supervision(_word_without(seen), "unwatched", what, acted_at, how)


def judge_asset(name: str, taken: str) -> UnhealthyPart | None:
    """Judge whether consumers hear of new sessions: ``taken`` is the asset of the stream that another DAG has."""
    if not taken:
        return None
    what = f"another DAG has taken its asset {taken} in Airflow, so no DAG hears of new sessions"
    how = f'write schedule=[sessions_asset("{name}")] in the DAG that has Asset("{taken}"): see Assets in Airflow'
    return _supervision(HealthWord.DEGRADED, "asset_taken", what, None, how)


def _judge_pause(name: str, seen: DriverStatus) -> UnhealthyPart | None:
    """Judge a stream whose DAG of supervision is paused."""
    if not needs_supervisor(seen):
        return None
    what = f"its supervisor {dag_id(name, Verb.SUPERVISE)} is paused: {_so(seen)}"
    how = f"unpause {dag_id(name, Verb.SUPERVISE)}, or run {dag_id(name, Verb.STOP)} if it should not run"
    return _supervision(_word_without(seen), "paused", what, None, how)


def needs_supervisor(seen: DriverStatus) -> bool:
    """Whether the stream should run, and its live driver was not started by hand."""
    if seen.desired.state is not DesiredState.RUNNING:
        return False
    return seen.launch is not None or (bool(seen.desired.at) and not seen.state.is_live)


def _word_without(seen: DriverStatus) -> HealthWord:
    return HealthWord.DEGRADED if seen.state.is_live else HealthWord.DOWN


def _so(seen: DriverStatus) -> str:
    return "a driver that ends is not replaced" if seen.state.is_live else "nothing starts its driver"


def _resume(name: str) -> str:
    resumed = f"unpause {dag_id(name, Verb.SUPERVISE)}, and check that Airflow's scheduler and triggerer run"
    return f"{resumed}, or run {dag_id(name, Verb.STOP)} if it should not run"


def has_newer_driver(seen: DriverStatus, record: SupervisionRecord) -> bool:
    """Whether a user has started another driver since the supervisor gave up."""
    return seen.state.is_live or (seen.lease is not None and seen.lease.acquired_at > record.last_failure_ms)


def _supervision(word: HealthWord, rule: str, what: str, since: int | None, what_to_do: str = "") -> UnhealthyPart:
    return UnhealthyPart(part=Part.SUPERVISION, word=word, rule=rule, what=what, since=since, what_to_do=what_to_do)
