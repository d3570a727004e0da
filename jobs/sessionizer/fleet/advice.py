"""Advice in one line: the problem of a stream and its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.causes.cause import HUNG, KILLED, NO_PROGRESS, NO_START, Cause, name_stream
from sessionizer.causes.table import cause_of
from sessionizer.control.records.desired_state import DesiredState
from sessionizer.control.status.driver_status import Stall, State
from sessionizer.errors import RetryEffect
from sessionizer.fleet.health.facts import ACTED_WITHIN_MS
from sessionizer.fleet.health.supervision_rules import has_newer_driver
from sessionizer.home.clock import clock_time, describe_duration
from sessionizer.home.names import Verb, dag_id
from sessionizer.redaction import redact

if TYPE_CHECKING:
    from sessionizer.causes.start_problem import StartProblem
    from sessionizer.control.records.airflow_records import SupervisionRecord
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.control.status.unfinished_operation import UnfinishedOperation
    from sessionizer.home.stream_home import StreamHome

OF_STALLS = {Stall.SILENT: HUNG, Stall.NO_PROGRESS: NO_PROGRESS, Stall.NO_START: NO_START}


def advice_on(  # noqa: PLR0913  all that an advice depends on
    home: StreamHome,
    seen: DriverStatus,
    supervision: SupervisionRecord | None,
    unfinished: UnfinishedOperation | None,
    *,
    supervised: bool,
    is_watched: bool = False,
    is_drained: bool = False,
) -> str | None:
    """Return the advice on the driver that was ``seen``. None if there is no problem. The supervisor's words go first.

    ``unfinished``: the command that has the stream. ``supervised``: a supervisor in Airflow starts the drivers.
    ``is_watched``: the supervisor has looked at the stream lately. ``is_drained``: the stream is over, and refuses
    every driver.
    """
    if unfinished is not None:
        return _describe_operation(unfinished, seen.at)
    if supervision is not None and seen.desired.state is DesiredState.RUNNING:
        told = _describe_supervisor(home.name, seen, supervision)
        if told is not None:
            return told
    if seen.damage:
        return seen.damage[0]
    return _describe_driver(home, seen, supervised=supervised, is_watched=is_watched, is_drained=is_drained)


def _describe_driver(
    home: StreamHome, seen: DriverStatus, *, supervised: bool, is_watched: bool, is_drained: bool
) -> str | None:
    if seen.state is State.STALLED:
        return _describe_stall(home, seen)
    if seen.state in {State.FAILED, State.VANISHED}:
        return _describe_end(home, seen, supervised=supervised)
    if is_drained:
        return _find_warning(seen)
    differs = _describe_desired_state(home.name, seen, supervised=supervised, is_watched=is_watched)
    return differs or _find_warning(seen)


def _describe_operation(unfinished: UnfinishedOperation, now: int) -> str:
    """Say how far the command is, and how a user continues it."""
    standing = f"{unfinished.standing}. No driver starts before it is finished"
    if unfinished.is_at_work:
        return f"{standing}. If that process is killed: {unfinished.go_on}"
    is_left = unfinished.is_unattended(now)
    return f"{standing}. What to do: {unfinished.go_on if is_left else unfinished.what_to_do}"


def _describe_supervisor(name: str, seen: DriverStatus, record: SupervisionRecord) -> str | None:
    """Say what the supervisor waits for, or why it does not restart the stream. None while a driver lives."""
    if record.given_up and not has_newer_driver(seen, record):
        going_on = "" if cause_of(record.cause).for_good else f", then {_unpause(name)}"
        return f"given up: {record.last_failure}. What to do: {name_stream(record.remedy, name)}{going_on}"
    if seen.state.is_live:
        return None
    if record.restart_at <= seen.at:
        return _describe_overdue_start(name, record) if seen.uid and record.counted_uid == seen.uid else None
    until, remedy = clock_time(record.restart_at), name_stream(record.remedy, name)
    if record.waiting_since is not None:
        what = cause_of(record.cause).called
        since = f"waiting since {clock_time(record.waiting_since)}: {what}. The next attempt is at {until}"
        return f"{since} after attempt {record.attempts} ({record.last_failure}). What to do: {remedy}"
    count = f"backing off until {until} after failure {record.failures} in a row"
    return f"{count}: {record.last_failure}. What to do: {remedy}"


def _describe_overdue_start(name: str, record: SupervisionRecord) -> str:
    """Repeat the supervisor's last failure after its wait is over. Its record knows best how the driver ended."""
    return f"{record.last_failure}. What to do: {name_stream(record.remedy, name)}. To resume: {_wake(name)}"


def _unpause(name: str) -> str:
    return f"unpause the DAG {dag_id(name, Verb.SUPERVISE)}"


def _wake(name: str) -> str:
    """Say how to have the supervisor act, which starts the next driver."""
    return f"{_unpause(name)} if it is paused, and check that Airflow's scheduler and triggerer run"


def _describe_end(home: StreamHome, seen: DriverStatus, *, supervised: bool) -> str:
    cause, what = _cause(seen, seen.start_problem)
    log = seen.launch.log if seen.launch else str(home.logs)
    is_wanted = seen.desired.state is DesiredState.RUNNING  # another line says how a user starts a stopped stream
    going_on = _going_on(home.name, cause, supervised=supervised) if is_wanted else ""
    return f"{what} → {name_stream(cause.remedy, home.name)} (see {log}){going_on}"


def _cause(seen: DriverStatus, problem: StartProblem | None) -> tuple[Cause, str]:
    record = seen.exit_record
    if problem is not None:
        return problem.cause, f"it did not start: {_first_line(problem.said)}"
    if record is None:
        return KILLED, "its process is gone without an exit record"
    message = _first_line(record.message or "no message")
    return cause_of(
        record.error_type, record.message or "", terminal=record.terminal
    ), f"{record.error_type}: {message}"


def _going_on(name: str, cause: Cause, *, supervised: bool) -> str:
    if cause.for_good:
        return ""
    how = _wake(name) if supervised else f"`sessionizer run {name}`"
    if cause.verdict is RetryEffect.TERMINAL:
        return f", then {how}"
    return f"; to resume: {how}"


def _describe_stall(home: StreamHome, seen: DriverStatus) -> str:
    lease, cause = seen.lease, OF_STALLS[seen.stall or Stall.NO_START]
    process = f"pid {lease.pid} on {lease.host}" if lease else "its process"
    shown = _shown_by(seen)
    return f"{shown}: {cause.remedy} ({home.logs}); `sessionizer stop {home.name}`, and kill {process} if it hangs"


def _shown_by(seen: DriverStatus) -> str:
    if seen.stall is Stall.NO_PROGRESS and seen.progress_age_ms is not None:
        return f"no progress for {describe_duration(seen.progress_age_ms)}"
    return f"no sign for {describe_duration(seen.age_ms)}" if seen.age_ms is not None else "no sign yet"


def _describe_desired_state(name: str, seen: DriverStatus, *, supervised: bool, is_watched: bool) -> str | None:
    """Say how the stream differs from its desired state. None if no desired state was ever set."""
    if seen.is_as_desired or not seen.desired.at or seen.state is State.STOPPING:
        return None
    if seen.desired.state is DesiredState.RUNNING:
        how = _wake(name) if supervised else f"`sessionizer run {name}`"
        if supervised and is_watched and seen.at - seen.desired.at <= ACTED_WITHIN_MS:
            return f"{seen.desired.by} wants it RUNNING, and its supervisor starts a driver. If it does not: {how}"
        return f"{seen.desired.by} wants it RUNNING, but nothing drives it: {how}"
    return f"{seen.desired.by} wants it {seen.desired.state}: `sessionizer stop {name}`"


def _find_warning(seen: DriverStatus) -> str | None:
    """Return the warning with which a live driver runs."""
    beat = seen.heartbeat
    if beat is None or not beat.warning or not seen.state.is_live or beat.uid != seen.uid:
        return None
    return f"warning: {_first_line(beat.warning)}"


def _first_line(text: str) -> str:
    """Cut a message to its first line, because the later ones are Spark's plans and stacks."""
    return next((line for line in redact(text).splitlines() if line.strip()), "no message")
