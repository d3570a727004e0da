"""From the control directory to the situation. Light: a few small files, no Spark, no Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.control.desired_state import read_desired
from sessionizer.control.observation import Observation, State
from sessionizer.control.process_identity import is_alive
from sessionizer.control.status import read_observation
from sessionizer_airflow.launching.launch_record import LaunchRecord, read_launch, submission_failed
from sessionizer_airflow.supervision.situation import Driver, Situation
from sessionizer_airflow.supervision.start_problem import start_problem

if TYPE_CHECKING:
    from sessionizer.control.stream_home import StreamHome
    from sessionizer_airflow.supervision.policy import SupervisionPolicy
    from sessionizer_airflow.supervision.start_problem import StartProblem

SICK = frozenset({State.VANISHED, State.FAILED, State.STALLED})
UNEXPLAINED = "unknown"
"""The cause in the exit record of a driver that does not know what ended it."""
LOG_HEAD = 256 * 1024
"""Bytes of a log that are read for what kept the driver from starting."""


def read_situation(home: StreamHome, policy: SupervisionPolicy, now_ms: int) -> Situation:
    """What the stream at `home` is doing at `now_ms`.

    :raises DamagedFile: the desired state cannot be read, and guessing could start a stopped stream.
    :raises ControlUnreachable: the control directory cannot be listed.
    """
    # The launch is read first: a driver that takes the lease meanwhile is then seen as its owner.
    launch = read_launch(home)
    return Situation(desired=read_desired(home), driver=_newest_driver(home, launch, policy, now_ms))


def _newest_driver(
    home: StreamHome, launch: LaunchRecord | None, policy: SupervisionPolicy, now_ms: int
) -> Driver | None:
    """The lease's owner while it lives, for only one driver can work; else whichever came last."""
    owner = _look(home, policy, now_ms)
    if launch is None or launch.uid == owner.uid:
        return _driver_of(home, owner, launch)
    if owner.state.is_live or _acquired_at(owner) > launch.at:
        return _driver_of(home, owner, None)
    return _driver_of(home, _look(home, policy, now_ms, launch), launch)


def _look(home: StreamHome, policy: SupervisionPolicy, now_ms: int, launch: LaunchRecord | None = None) -> Observation:
    return read_observation(
        home,
        now_ms,
        startup_grace_ms=policy.startup_grace,
        stale_after_ms=policy.stale_limit,
        uid=launch.uid if launch else None,
        launched_at=launch.at if launch else None,
    )


def _driver_of(home: StreamHome, seen: Observation, launch: LaunchRecord | None) -> Driver | None:
    """The driver in an observation, put right by what is known of its launch."""
    if seen.uid is None:
        return None
    submitted = _launched_lives(home, launch) if launch else None
    torso = submitted is False and _python_lives(seen)
    state = State.STALLED if torso else _state_of(seen, submitted=submitted)
    if launch is not None and _is_unaccounted_for(seen, launch, submitted=submitted):
        state = State.STALLED
    return Driver(
        uid=seen.uid,
        state=state,
        present=bool(submitted) or seen.alive is True or (seen.alive is None and state.is_live),
        launched_ms=launch.at if launch else _acquired_at(seen),
        heard_ms=_last_sign(seen, launch),
        stop_requested=seen.stop_requested,
        batch_id=seen.heartbeat.batch_id if seen.heartbeat else None,
        ending=seen.exit_record,
        torso=torso,
        log=launch.log if launch else None,
        lineage=seen.heartbeat.lineage if seen.heartbeat else None,
        start_problem=_start_problem(seen, launch, state) if launch else None,
    )


def _start_problem(seen: Observation, launch: LaunchRecord, state: State) -> StartProblem | None:
    """What kept the driver from its first batch, unless it works on it or has told in its exit record."""
    came_to_work = seen.heartbeat is not None and seen.heartbeat.batch_id is not None
    told = seen.exit_record is not None and seen.exit_record.error_type != UNEXPLAINED
    if came_to_work or told or state not in SICK:
        return None
    try:
        with Path(launch.log).open("rb") as log:
            return start_problem(log.read(LOG_HEAD).decode(errors="replace"))
    except OSError:
        return None


def _launched_lives(home: StreamHome, launch: LaunchRecord) -> bool | None:
    """Whether what was launched (spark-submit, then its JVM) lives; None: not known from here, as of a cluster."""
    if launch.submission is not None:
        return False if launch.ended_at is not None or submission_failed(home, launch.uid) else None
    return is_alive(launch.process) if launch.process else None


def _state_of(seen: Observation, *, submitted: bool | None) -> State:
    before_lease = seen.lease is None
    if submitted is False and seen.state is State.STARTING and before_lease:
        return State.VANISHED
    if submitted is True and seen.state is State.VANISHED and before_lease:
        return State.STALLED
    return seen.state


def _is_unaccounted_for(seen: Observation, launch: LaunchRecord, *, submitted: bool | None) -> bool:
    """Whether only the cluster knows what became of the driver: it may wait in a queue, or its process be left over."""
    return launch.submission is not None and submitted is None and seen.state is State.VANISHED


def _python_lives(seen: Observation) -> bool:
    """Whether its Python lives on, which without a JVM can do nothing more.

    It is looked at again here, after the JVM: one that was seen alive may have ended before its JVM was looked at.
    """
    process = seen.lease.process if seen.lease else None
    return seen.state.is_live and seen.alive is True and process is not None and is_alive(process) is True


def _acquired_at(seen: Observation) -> int:
    return seen.lease.acquired_at if seen.lease else 0


def _last_sign(seen: Observation, launch: LaunchRecord | None) -> int:
    signs = [_acquired_at(seen), launch.at if launch else 0]
    if seen.heartbeat is not None:
        signs.append(seen.heartbeat.at)
    return max(signs)
