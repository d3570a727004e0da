"""Rules on the driver of a stream and on its supervision: spec, commands, supervisor. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sessionizer.causes.cause import HUNG, NO_PROGRESS, NO_START, name_stream
from sessionizer.causes.table import cause_of, remedy_for
from sessionizer.control.records.supervision_records import DesiredState, SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus, Stall, State
from sessionizer.errors import RetryEffect
from sessionizer.fleet.finding import Finding, HealthWord, Rule
from sessionizer.home.clock import MINUTE, clock_time, describe_duration
from sessionizer.home.names import Verb, dag_id, name_process

if TYPE_CHECKING:
    from sessionizer.fleet.stream_view import StreamView

ACTED_WITHIN_MS: Final = 5 * MINUTE
"""Milliseconds within which a supervisor acts on a driver that is gone."""
_OF_STALLS: Final = {Stall.SILENT: HUNG, Stall.NO_PROGRESS: NO_PROGRESS, Stall.NO_START: NO_START}


def judge_command(view: StreamView, seen: DriverStatus) -> Finding | None:
    """Judge the command that has the stream: whether a process carries it out."""
    unfinished = view.unfinished
    if unfinished is None:
        return None
    what, since = f"{unfinished.standing}. No driver starts before it is finished", seen.desired.at or None
    if unfinished.is_unattended(view.now) or (has_given_up(view, seen) and not unfinished.is_at_work):
        return Finding(Rule.STUCK_COMMAND, HealthWord.DOWN, what, since, unfinished.go_on)
    how = "" if unfinished.is_at_work else unfinished.what_to_do
    return Finding(Rule.COMMAND, HealthWord.WARNING, what, since, how)


def judge_spec(view: StreamView, seen: DriverStatus) -> Finding | None:
    """Judge whether the stream has a spec that can be read."""
    if view.is_orphan:
        lease = view.owner.lease
        process = f" (pid {lease.pid} on {lease.host})" if lease else ""
        what = f"{name_process(view.owner.uid)}{process} of stream {view.name} runs, but no spec describes it"
        how, stop = "put its spec back", f"sessionizer stop {view.name}"
        return Finding(Rule.ORPHAN, HealthWord.DEGRADED, what, what_to_do=how, command=stop)
    if view.problem is None or _lacks_dag(view, seen):
        return None
    return Finding(Rule.INVALID_SPEC, HealthWord.DEGRADED, str(view.problem), what_to_do=remedy_for(view.problem))


def _lacks_dag(view: StreamView, seen: DriverStatus) -> bool:
    """Whether a driver is wanted, and none follows because of the spec: the rule on the driver says so."""
    is_wanted = seen.desired.state is DesiredState.RUNNING and view.unfinished is None
    return view.problem is not None and is_wanted and not seen.state.is_live and seen.state is not State.NEVER_STARTED


def judge_supervisor(view: StreamView, seen: DriverStatus) -> Finding | None:
    """Judge whether the supervisor acts: it has not given up, is not paused, and has looked lately."""
    if view.unfinished is not None or view.is_orphan or view.is_drained:
        return None
    record = view.supervision
    if record is not None and has_given_up(view, seen):
        how = name_stream(record.remedy, view.name)
        if not cause_of(record.cause).for_good:
            how += f", then unpause the DAG {dag_id(view.name, Verb.SUPERVISE)}"
        what, since = f"given up: {record.last_failure}", record.last_failure_ms or None
        return Finding(Rule.GIVEN_UP, HealthWord.DOWN, what, since, how)
    word, consequence = HealthWord.DOWN, "nothing starts its driver"
    if seen.state.is_live:
        word, consequence = HealthWord.DEGRADED, "a driver that ends is not replaced"
    stop = f"or run {dag_id(view.name, Verb.STOP)} if it should not run"
    if view.paused and view.problem is None:
        supervise = dag_id(view.name, Verb.SUPERVISE)
        what = f"its supervisor {supervise} is paused: {consequence}"
        found = Finding(Rule.PAUSED, word, what, what_to_do=f"unpause {supervise}, {stop}")
        return found if _needs_supervisor(seen) else None
    # a driver that was adopted by a watch needs another one, and has no launch
    watched_until = view.watch.until or None if view.watch else None
    acted_at = watched_until if view.looked_at is None and seen.state.is_live else view.looked_at
    is_adopted = seen.desired.state is DesiredState.RUNNING and watched_until is not None
    if acted_at is None or not (is_adopted or _needs_supervisor(seen)) or view.now - acted_at <= ACTED_WITHIN_MS:
        return None
    what = f"no supervisor has looked at it for {describe_duration(view.now - acted_at)}: {consequence}"
    # without a spec it has no DAG to unpause
    how = f"{_wake(view.name)}, {stop}" if view.problem is None else remedy_for(view.problem)
    return Finding(Rule.UNWATCHED, word, what, acted_at, how)


def has_given_up(view: StreamView, seen: DriverStatus) -> bool:
    """Whether the supervisor has given up a stream that should run, and no user has started a driver since."""
    record = view.supervision
    if record is None or seen.desired.state is not DesiredState.RUNNING or view.is_drained:
        return False
    is_newer = seen.state.is_live or (seen.lease is not None and seen.lease.acquired_at > record.last_failure_ms)
    return record.given_up and not is_newer


def _needs_supervisor(seen: DriverStatus) -> bool:
    """Whether the stream should run, and its live driver was not started by hand."""
    if seen.desired.state is not DesiredState.RUNNING:
        return False
    return seen.launch is not None or (bool(seen.desired.at) and not seen.state.is_live)


def judge_asset(view: StreamView) -> Finding | None:
    """Judge whether consumers hear of new sessions: no other DAG has the name of an asset of the stream."""
    taken = view.taken
    if not taken:
        return None
    what = f"another DAG has taken its asset {taken} in Airflow, so no DAG hears of new sessions"
    how = f'write schedule=[sessions_asset("{view.name}")] in the DAG that has Asset("{taken}"): see Assets in Airflow'
    return Finding(Rule.ASSET_TAKEN, HealthWord.DEGRADED, what, what_to_do=how)


def judge_damages(view: StreamView) -> Iterator[Finding]:
    """Judge the records that the stream and its driver need. Yields a finding for each that cannot be read."""
    told = {str(error): remedy_for(error, view.name) for error in view.damages}
    for line in {**told, **dict.fromkeys(view.driver.damage if view.driver else (), "")}:
        yield Finding(Rule.DAMAGED_RECORD, HealthWord.UNKNOWN, line, what_to_do=told.get(line, ""))


def judge_unreadable(view: StreamView) -> Finding:
    """Return the finding on a stream whose driver is unknown, because of the problem of its spec or home."""
    what = str(view.problem) if view.problem else "its records cannot be read"
    how = remedy_for(view.problem) if view.problem else ""
    return Finding(Rule.UNREADABLE, HealthWord.UNKNOWN, what, what_to_do=how)


def judge_driver(view: StreamView, seen: DriverStatus) -> Finding | None:
    """Judge whether the driver is as desired."""
    if seen.damage or view.damages or view.unfinished is not None or seen.desired.state is DesiredState.MAINTENANCE:
        return None  # other rules judge these
    if seen.desired.state is DesiredState.STOPPED:
        return _judge_unwanted(view, seen)
    if seen.state.is_live:
        return _judge_live(view, seen)
    return None if view.is_drained else _judge_absent(view, seen)


def _judge_unwanted(view: StreamView, seen: DriverStatus) -> Finding | None:
    if not seen.state.is_live:
        return None
    if seen.state is State.STOPPING or seen.stop_requested:
        return Finding(Rule.STOPPING, HealthWord.WARNING, "it stops at the next batch boundary", seen.desired.at)
    if view.draining_since is not None:
        return _judge_drain(view)
    word = HealthWord.WARNING if view.now - seen.desired.at <= ACTED_WITHIN_MS else HealthWord.DEGRADED
    what = f"it runs, though {seen.desired.by or 'a user'} wants it {seen.desired.state}"
    return Finding(Rule.NOT_STOPPED, word, what, seen.desired.at, command=f"sessionizer stop {view.name}")


def _judge_live(view: StreamView, seen: DriverStatus) -> Finding | None:
    if seen.state is State.STARTING:
        since = seen.lease.acquired_at if seen.lease else None
        return Finding(Rule.STARTING, HealthWord.WARNING, "a driver starts", since)
    if seen.state is State.STOPPING:
        what = "its driver stops" if view.paused else "its driver stops, and another one follows"
        return Finding(Rule.RESTARTING, HealthWord.WARNING, what)
    if seen.state is not State.STALLED:
        return _judge_drain(view)
    return _judge_stall(view, seen)


def _judge_stall(view: StreamView, seen: DriverStatus) -> Finding:
    is_beating = seen.stall is Stall.NO_PROGRESS
    rule, age = (Rule.NO_PROGRESS, seen.progress_age_ms) if is_beating else (Rule.SILENT, seen.age_ms)
    what = "its batch has made no progress" if is_beating else "no sign"
    lease, since = seen.lease, None if age is None else view.now - age
    process = f"pid {lease.pid} on {lease.host}" if lease else "its process"
    log = view.home.logs if view.home else "its log"
    how = f"{_OF_STALLS[seen.stall or Stall.NO_START].remedy} ({log}). Then run `sessionizer stop {view.name}`, "
    what = f"{what} yet" if age is None else f"{what} for {describe_duration(age)}"
    return Finding(rule, HealthWord.DEGRADED, what, since, f"{how}and kill {process} if it hangs")


def _judge_drain(view: StreamView) -> Finding | None:
    if view.draining_since is None:
        return None
    what = "it drains: every session is closed for good, and then the stream is over"
    return Finding(Rule.DRAINING, HealthWord.WARNING, what, view.draining_since)


def _judge_absent(view: StreamView, seen: DriverStatus) -> Finding | None:
    record = view.supervision
    if seen.state is State.STOPPED and not seen.desired.at and not view.has_supervisor:
        return None  # started by hand, and ended as it should: no user ever wanted more
    if has_given_up(view, seen) or (view.paused and view.problem is None and _needs_supervisor(seen)):
        return None  # a rule of supervision says it
    if view.problem is not None and _lacks_dag(view, seen):
        what = f"its driver has {seen.state.lower()}, and no DAG starts another one: {view.problem}"
        return Finding(Rule.NO_DRIVER, HealthWord.DOWN, what, _gone_since(view, seen), remedy_for(view.problem))
    if record is not None and record.restart_at > view.now:
        return _judge_waiting(view, record)
    return _judge_gone(view, seen)


def _judge_gone(view: StreamView, seen: DriverStatus) -> Finding:
    has_run, since = seen.state is not State.NEVER_STARTED, _gone_since(view, seen)
    what = f"its driver has {seen.state.lower()}" if has_run else "no driver has run yet"
    if not has_run and (view.supervision is None or not view.supervision.last_failure_ms):
        how, run = f"unpause {dag_id(view.name, Verb.SUPERVISE)}", f"sessionizer run {view.name}"
        return Finding(Rule.NEVER_STARTED, HealthWord.UNKNOWN, what, what_to_do=how, command=run)
    said, how = describe_end(view, seen)
    if said:
        what = f"{what}: {said}"
    elif seen.desired.by:
        what = f"{what}, though {seen.desired.by} wants it {seen.desired.state}"
    if view.has_supervisor and since is not None and view.now - since <= ACTED_WITHIN_MS:
        return Finding(Rule.RESTARTING, HealthWord.WARNING, f"{what}. Another one follows", since, how)
    return Finding(Rule.NO_DRIVER, HealthWord.DOWN, what, since, _then_resume(view, seen, how))


def describe_end(view: StreamView, seen: DriverStatus) -> tuple[str, str]:
    """Say how the driver ended, and what to do about the cause. Both are empty if it ended as it should."""
    record = view.supervision
    if record is not None and record.last_failure_ms and (not seen.uid or record.counted_uid == seen.uid):
        return record.last_failure, name_stream(record.remedy, view.name)
    if seen.state not in {State.FAILED, State.VANISHED}:
        return "", ""
    ending, end = seen.exit_record, "its process is gone without an exit record"
    if seen.start_problem is not None:
        end = f"it did not start: {_first_line(seen.start_problem.said)}"
    elif ending is not None:
        kind = f"{ending.error_type}: " if ending.error_type else ""
        end = f"{kind}{_first_line(ending.message or '')}"
    log = seen.launch.log if seen.launch else view.home.logs if view.home else "its log"
    return end, f"{name_stream(seen.cause.remedy, view.name)} (see {log})"


def _then_resume(view: StreamView, seen: DriverStatus, remedy: str) -> str:
    resume = _wake(view.name) if view.has_supervisor or view.has_watched_spec else f"`sessionizer run {view.name}`"
    if not remedy:
        return resume
    cause = cause_of(view.supervision.cause) if view.supervision and view.supervision.cause else seen.cause
    if cause.for_good:
        return remedy
    return f"{remedy}, then {resume}" if cause.verdict is RetryEffect.TERMINAL else f"{remedy}. To resume: {resume}"


def _wake(name: str) -> str:
    unpause = f"unpause the DAG {dag_id(name, Verb.SUPERVISE)} if it is paused"
    return f"{unpause}, and check that Airflow's scheduler and triggerer run"


def _judge_waiting(view: StreamView, record: SupervisionRecord) -> Finding:
    until, remedy = clock_time(record.restart_at), name_stream(record.remedy, view.name)
    if record.waiting_since is not None:
        called = cause_of(record.cause).called or record.last_failure
        what = f"it waits: {called}. Attempt {record.attempts} failed ({record.last_failure}). The next is at {until}"
        return Finding(Rule.WAITING, HealthWord.WARNING, what, record.waiting_since, remedy)
    what = f"it backs off until {until} after failure {record.failures} in a row: {record.last_failure}"
    return Finding(Rule.BACKING_OFF, HealthWord.WARNING, what, record.last_failure_ms, remedy)


def _gone_since(view: StreamView, seen: DriverStatus) -> int | None:
    if seen.exit_record is not None:
        return seen.exit_record.at
    if seen.state is State.NEVER_STARTED and view.supervision is not None:
        return view.supervision.restart_at
    return None if seen.age_ms is None else view.now - seen.age_ms


def judge_warning(seen: DriverStatus) -> Finding | None:
    """Judge the warning with which a live driver runs."""
    beat = seen.heartbeat if seen.state.is_live else None
    if beat is None or not beat.warning or beat.uid != seen.uid:
        return None
    return Finding(Rule.DRIVER_WARNS, HealthWord.WARNING, _first_line(beat.warning))


def describe_calm(view: StreamView) -> Rule:
    """Return the rule by which a stream without findings is healthy."""
    seen = view.driver
    if view.is_drained:
        return Rule.DRAINED
    if seen is not None and not seen.state.is_live:
        return Rule.STOPPED
    return Rule.IDLE if seen is not None and seen.state is State.IDLE else Rule.WORKING


def _first_line(text: str) -> str:
    # the later ones are Spark's plans and stacks
    return next((line for line in text.splitlines() if line.strip()), "no message")
