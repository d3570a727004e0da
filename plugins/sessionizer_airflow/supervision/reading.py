"""From the control directory to the situation. Light: a few small files, no Spark, no Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.causes.start_problem import start_problem_in
from sessionizer.control.records.desired_state import read_desired
from sessionizer.control.records.launch_record import own_file
from sessionizer.control.status.newest_driver import acquired_at, newest_driver
from sessionizer.control.status.observation import Observation, State
from sessionizer.control.status.progress_line import running_line
from sessionizer_airflow.supervision.situation import Driver, Situation

if TYPE_CHECKING:
    from sessionizer.causes.start_problem import StartProblem
    from sessionizer.control.records.launch_record import LaunchRecord
    from sessionizer.control.status.newest_driver import NewestDriver
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.supervision.policy import SupervisionPolicy

SICK = frozenset({State.VANISHED, State.FAILED, State.STALLED})
UNEXPLAINED = "unknown"
"""The cause in the exit record of a driver that does not know what ended it."""


def read_situation(home: StreamHome, policy: SupervisionPolicy, now_ms: int) -> Situation:
    """What the stream at `home` is doing at `now_ms`.

    :raises DamagedFile: the desired state cannot be read, and guessing could start a stopped stream.
    :raises ControlUnreachable: the control directory cannot be listed.
    """
    newest = newest_driver(home, now_ms, startup_grace_ms=policy.startup_grace, stale_after_ms=policy.stale_limit)
    return Situation(desired=read_desired(home), driver=_driver_of(home, newest, now_ms))


def _driver_of(home: StreamHome, newest: NewestDriver, now_ms: int) -> Driver | None:
    seen, launch = newest.seen, newest.launch
    if seen.uid is None:
        return None
    age, log = seen.progress_age_ms, _own_log(home, launch)
    return Driver(
        uid=seen.uid,
        state=seen.state,
        present=bool(newest.launched_lives) or seen.alive is True or (seen.alive is None and seen.state.is_live),
        launched_ms=launch.at if launch else acquired_at(seen),
        heard_ms=_last_sign(seen, launch),
        progress_ms=None if age is None else now_ms - age,
        stall=seen.stall,
        stop_requested=seen.stop_requested,
        batch_id=seen.heartbeat.batch_id if seen.heartbeat else None,
        ending=seen.exit_record,
        without_jvm=newest.without_jvm,
        out_of_sight=_out_of_sight(newest),
        log=log,
        lineage=seen.heartbeat.lineage if seen.heartbeat else None,
        start_problem=_start_problem(seen, log) if log else None,
        under_way=running_line(seen.heartbeat, now_ms) if seen.heartbeat else None,
        under_way_since=seen.heartbeat.running_since if seen.heartbeat else None,
    )


def _out_of_sight(newest: NewestDriver) -> str | None:
    """The machine of a process that cannot be seen from here; None where it can, or a cluster can be asked."""
    launch, lease = newest.launch, newest.seen.lease
    asked_elsewhere = launch is not None and launch.submission is not None
    if asked_elsewhere or newest.launched_lives is not None or newest.seen.alive is not None or lease is None:
        return None
    return lease.host or "an unknown machine"


def _own_log(home: StreamHome, launch: LaunchRecord | None) -> str | None:
    """The file that the launch record names, if it is one of the stream's: its lines are shown to people."""
    return launch.log if launch is not None and own_file(home, launch.log) is not None else None


def _start_problem(seen: Observation, log: str) -> StartProblem | None:
    """What kept the driver from its first batch, unless it works on it or has told in its exit record."""
    came_to_work = seen.heartbeat is not None and seen.heartbeat.batch_id is not None
    told = seen.exit_record is not None and seen.exit_record.error_type != UNEXPLAINED
    return None if came_to_work or told or seen.state not in SICK else start_problem_in(Path(log))


def _last_sign(seen: Observation, launch: LaunchRecord | None) -> int:
    signs = [acquired_at(seen), launch.at if launch else 0]
    if seen.heartbeat is not None:
        signs.append(seen.heartbeat.at)
    return max(signs)
