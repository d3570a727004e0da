"""What a person means who acts on a watching task in the UI.

Mark as failed or as successful: the stream is to stop, and to stay stopped, though `@continuous` starts the next run at
once. `marks` hears that first, whatever the task is at, and alone writes down the wish: who hears it later, here, might
overwrite a newer one. Clear: start it again, so the driver drains and another is launched; the new try sees that it was
cleared, but for a task that a worker had, which hears it here. Anything else is not a person: a run that timed out, a
triggerer that handed the watch to another, a worker that shuts down. Then the driver goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sessionizer.control.desired_state import DesiredState, read_desired, write_desired
from sessionizer.control.stop_marker import request_stop
from sessionizer_airflow.supervision.live_drivers import live_drivers
from sessionizer_airflow.supervision.watch_record import read_watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.stream_home import StreamHome

STOPS = frozenset({"failed", "success"})
CLEARED = "its task was cleared"
WORKED_ON = frozenset({"running", "skipped", "up_for_retry"})
"""States in which nobody killed a task that a worker ran."""


class KilledTask(Protocol):
    """What is used of Airflow's task instance."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int | None
    try_number: int


def after_kill(home: StreamHome, task: KilledTask, say: Callable[[str], None]) -> None:
    """Do what the person meant who killed `task` at a worker; it was nobody if its state is one of `WORKED_ON`.

    After a mark only a driver is left to be asked that was not there yet when the mark was made.
    """
    state = _state_of(task)
    if state in STOPS:
        if read_desired(home).state is not DesiredState.RUNNING:
            drain(home, f"task {task.dag_id}.{task.task_id} was marked {state}", say)
    elif state not in WORKED_ON or _has_newer_try(home, task):
        drain(home, CLEARED, say)
    else:
        say(f"the watch of {home.name} was taken away ({state}); its driver goes on")


def stop_for_good(home: StreamHome, why: str, say: Callable[[str], None]) -> None:
    """Record that the stream is not wanted any more, and ask its drivers to drain."""
    write_desired(home, DesiredState.STOPPED, by="a user of Airflow", why=why)
    drain(home, why, say)


def drain(home: StreamHome, why: str, say: Callable[[str], None]) -> None:
    """Ask the stream's drivers to drain."""
    for uid in live_drivers(home):
        request_stop(home, uid, why)
        say(f"driver {uid} is asked to drain: {why}")


def _has_newer_try(home: StreamHome, task: KilledTask) -> bool:
    """Whether the task was cleared and, before we heard of it, has got as far as its old try: their states are one."""
    watch = read_watch(home)
    return watch is not None and watch.run_id == task.run_id and watch.try_number > task.try_number


def _state_of(task: KilledTask) -> str | None:
    """The state that the task instance has now; None after it was cleared."""
    # It can be imported only in a process that Airflow has started for triggers or tasks.
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415

    states = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    found = states.get(task.run_id, {}).get(task.task_id)
    return None if found is None else str(found)
