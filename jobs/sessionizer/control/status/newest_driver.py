"""The newest driver of a stream, including one that was launched and has not taken the lease yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.control.patience import STALE_AFTER_MS, STARTUP_GRACE_MS
from sessionizer.control.records.launch_record import LaunchRecord, read_launch
from sessionizer.control.records.process_identity import is_alive
from sessionizer.control.status.observation import Observation, State
from sessionizer.control.status.observe import read_observation

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, slots=True)
class NewestDriver:
    """The observation ``seen`` of the driver, and its ``launch``, if Airflow launched it.

    ``owner`` is the observation of the lease's (last) owner, which may be another driver.

    ``launched_lives``: whether the launched process (spark-submit, then its JVM) lives. None if that cannot be seen
    from here, such as in a cluster. ``without_jvm``: the driver's Python lives on without a JVM, and can do nothing
    more.
    """

    seen: Observation
    owner: Observation
    launch: LaunchRecord | None = None
    launched_lives: bool | None = None
    without_jvm: bool = False


def newest_driver(
    home: StreamHome, now: int, *, startup_grace_ms: int = STARTUP_GRACE_MS, stale_after_ms: int = STALE_AFTER_MS
) -> NewestDriver:
    """Return the lease's owner while it lives, because only one driver can work. Otherwise return the newest driver.

    Raises ControlUnreachable.
    """

    def look(launch: LaunchRecord | None = None) -> Observation:
        return read_observation(
            home,
            now,
            startup_grace_ms=startup_grace_ms,
            stale_after_ms=stale_after_ms,
            uid=launch.uid if launch else None,
            launched_at=launch.at if launch else None,
        )

    # The launch is read first: a driver that takes the lease meanwhile is then seen as its owner.
    launch, owner = read_launch(home), look()
    if launch is None:
        return NewestDriver(owner, owner)
    if launch.uid == owner.uid:
        return _put_right(owner, owner, launch)
    if owner.state.is_live or acquired_at(owner) > launch.at:
        return NewestDriver(owner, owner)
    return _put_right(look(launch), owner, launch)


def acquired_at(seen: Observation) -> int:
    """Return the time at which the driver took the lease (epoch ms). 0 if it has not."""
    return seen.lease.acquired_at if seen.lease else 0


def _put_right(seen: Observation, owner: Observation, launch: LaunchRecord) -> NewestDriver:
    lives = _launched_lives(launch)
    without_jvm = lives is False and _python_lives(seen)
    state = State.STALLED if without_jvm else _state_of(seen, launch, lives=lives)
    return NewestDriver(replace(seen, state=state), owner, launch, lives, without_jvm)


def _launched_lives(launch: LaunchRecord) -> bool | None:
    if launch.ended_at is not None:
        return False
    if launch.submission is not None:
        return None
    return is_alive(launch.process) if launch.process else None


def _state_of(seen: Observation, launch: LaunchRecord, *, lives: bool | None) -> State:
    before_lease = seen.lease is None
    if lives is False and seen.state is State.STARTING and before_lease:
        return State.VANISHED
    if lives is True and seen.state is State.VANISHED and before_lease:
        return State.STALLED
    # Only the cluster knows its state: it may wait in a queue, or its process be left over.
    unaccounted_for = launch.submission is not None and lives is None and seen.state is State.VANISHED
    return State.STALLED if unaccounted_for else seen.state


def _python_lives(seen: Observation) -> bool:
    """Whether the driver's Python lives on, although without a JVM it can do nothing more.

    It is looked at again here, after the JVM, because a Python that was seen alive may have ended before its JVM was
    looked at.
    """
    process = seen.lease.process if seen.lease else None
    return seen.state.is_live and seen.alive is True and process is not None and is_alive(process) is True
