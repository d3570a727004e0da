"""Observation of a stream at one moment, the input of a decision.

Light: a few small files of the control directory, no Spark, no Airflow. Times are epoch milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.causes.start_problem import VAGUE, start_problem_in
from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer.control.records.exit_record import ExitOutcome
from sessionizer.control.records.launch_record import own_file
from sessionizer.control.status.newest_driver import acquired_at, newest_driver
from sessionizer.control.status.observation import Observation, State
from sessionizer.control.status.progress_line import running_line
from sessionizer.control.status.unfinished_operation import read_unfinished

if TYPE_CHECKING:
    from sessionizer.causes.start_problem import StartProblem
    from sessionizer.control.records.desired_state import Desired
    from sessionizer.control.records.exit_record import ExitRecord
    from sessionizer.control.records.launch_record import LaunchRecord
    from sessionizer.control.status.newest_driver import NewestDriver
    from sessionizer.control.status.observation import Stall
    from sessionizer.control.status.unfinished_operation import UnfinishedOperation
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.supervision.policy import SupervisionPolicy


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The driver to decide on: the lease's owner while it lives, else the newest one.

    ``present``: whether a process of it may still exist. ``heard_ms``: its newest sign of life. ``progress_ms``: the
    newest progress of its start or its query. ``without_jvm``: its Python lives on without its JVM. ``out_of_sight``:
    the machine whose processes neither we nor a cluster can see from here. ``log``: the file with its output, if it was
    launched from here. ``start_problem``: the known obstacle to its first batch. ``under_way``: the progress of a long
    batch that began at ``under_way_since``.
    """

    uid: str
    state: State
    present: bool
    launched_ms: int
    heard_ms: int
    progress_ms: int | None = None
    stall: Stall | None = None
    stop_requested: bool = False
    batch_id: int | None = None
    ending: ExitRecord | None = None
    without_jvm: bool = False
    out_of_sight: str | None = None
    log: str | None = None
    lineage: str | None = None
    start_problem: StartProblem | None = None
    under_way: str | None = None
    under_way_since: int | None = None

    @property
    def lifetime_ms(self) -> int:
        """Ms between the launch and the newest sign of life."""
        return self.heard_ms - self.launched_ms

    @property
    def works(self) -> bool:
        """Whether it has committed a batch and lives on."""
        return self.state in {State.RUNNING, State.IDLE} and self.batch_id is not None

    @property
    def has_ended(self) -> bool:
        """Whether no process of it is left."""
        return not self.state.is_live and not self.present

    @property
    def ended_on_purpose(self) -> bool:
        """Whether it was stopped, finished its input or stepped back for another driver."""
        return self.ending is not None and self.ending.outcome is not ExitOutcome.FAILED


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Desired state of the stream, and its driver.

    ``unfinished``: the command that has the stream, if the stream is in maintenance.
    """

    desired: Desired
    driver: Driver | None = None
    unfinished: UnfinishedOperation | None = None

    @property
    def wanted(self) -> bool:
        """Whether the stream should run."""
        return self.desired.state is DesiredState.RUNNING


SICK = frozenset({State.VANISHED, State.FAILED, State.STALLED})


def read_situation(home: StreamHome, policy: SupervisionPolicy, now_ms: int) -> Situation:
    """Read what the stream at ``home`` is doing at ``now_ms``.

    Raises DamagedFile: the desired state or the record of a command that has the stream cannot be read, and guessing
    could start a stopped stream.
    Raises ControlUnreachable: the control directory cannot be listed.
    """
    newest = newest_driver(home, now_ms, startup_grace_ms=policy.startup_grace_ms, stale_after_ms=policy.stale_limit_ms)
    desired = read_desired(home)
    in_maintenance = desired.state is DesiredState.MAINTENANCE
    return Situation(
        desired=desired,
        driver=_driver_of(home, newest, now_ms),
        unfinished=read_unfinished(home, newest.owner, now_ms) if in_maintenance else None,
    )


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
        out_of_sight=_find_unseen_machine(newest),
        log=log,
        lineage=seen.heartbeat.lineage if seen.heartbeat else None,
        start_problem=_start_problem(seen, log) if log else None,
        under_way=running_line(seen.heartbeat, now_ms) if seen.heartbeat else None,
        under_way_since=seen.heartbeat.running_since if seen.heartbeat else None,
    )


def _find_unseen_machine(newest: NewestDriver) -> str | None:
    """Return the machine of a process that cannot be seen from here. None if we can see it, or can ask a cluster."""
    launch, lease = newest.launch, newest.seen.lease
    asked_elsewhere = launch is not None and launch.submission is not None
    if asked_elsewhere or newest.launched_lives is not None or newest.seen.alive is not None or lease is None:
        return None
    return lease.host or "an unknown machine"


def _own_log(home: StreamHome, launch: LaunchRecord | None) -> str | None:
    """Return the log file of the launch record, if it is one of the stream's, because its lines are shown to users."""
    return launch.log if launch is not None and own_file(home, launch.log) is not None else None


def _start_problem(seen: Observation, log: str) -> StartProblem | None:
    """Find the problem that kept the driver from its first batch.

    None if it works on that batch, or if its exit record already names the error.
    """
    came_to_work = seen.heartbeat is not None and seen.heartbeat.batch_id is not None
    told = seen.exit_record is not None and seen.exit_record.error_type not in VAGUE
    return None if came_to_work or told or seen.state not in SICK else start_problem_in(Path(log))


def _last_sign(seen: Observation, launch: LaunchRecord | None) -> int:
    signs = [acquired_at(seen), launch.at if launch else 0]
    if seen.heartbeat is not None:
        signs.append(seen.heartbeat.at)
    return max(signs)
