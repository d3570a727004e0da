"""Reaction to a user's action on a watching task in the UI.

Mark as failed or as successful: the stream stops and stays stopped, though ``@continuous`` starts the next run at once.
``marks`` hears that first, in every state of the task, and only it writes the desired state. This module hears it
later, and might overwrite a newer one.

Clear: the driver stops and the supervisor launches another. The new try sees that it was cleared, or the worker does,
if it still finds the task being restarted.

Any other end is not a user's action, and the driver goes on. Examples are a run that timed out and a worker that was
thought dead and whose task is retried. Others are a triggerer that handed the watch to another and a worker that shuts
down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sessionizer.control.maintenance import ask_to_stop
from sessionizer.control.records.desired_state import DesiredState, read_desired, write_desired

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome

STOPS = frozenset({"failed", "success"})
CLEARED = "its task was cleared"
BEING_CLEARED = "restarting"
"""State that only a clear gives to a task with a worker. Its result then is the same as that of a retry."""


class KilledTask(Protocol):
    """The part of Airflow's task instance that is used here."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int | None
    try_number: int

    def get_task_states(
        self, dag_id: str, map_index: int | None, *, task_ids: list[str], run_ids: list[str]
    ) -> dict[str, Any]:
        """Ask Airflow for the states of tasks, by run and task. Call it only in the task's process."""


def handle_kill(home: StreamHome, task: KilledTask, say: Callable[[str], None]) -> None:
    """React to the end of ``task`` at a worker, if a user ended it.

    After a mark only a driver that started after the mark is still to be asked to stop.
    """
    state = _state_of(task)
    if state in STOPS:
        if read_desired(home).state is not DesiredState.RUNNING:
            ask_to_stop(home, f"task {task.dag_id}.{task.task_id} was marked {state}", say)
    elif state == BEING_CLEARED:
        ask_to_stop(home, CLEARED, say)
    else:
        say(f"the watch of {home.name} was ended ({state}). Its driver keeps running")


def stop_for_good(home: StreamHome, why: str, say: Callable[[str], None]) -> None:
    """Set the desired state of the stream to STOPPED, and ask its drivers to stop."""
    write_desired(home, DesiredState.STOPPED, by="a user of Airflow", why=why)
    ask_to_stop(home, why, say)


def _state_of(task: KilledTask) -> str | None:
    """Return the state that the task instance has now. None after it was cleared."""
    states = task.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    found = states.get(task.run_id, {}).get(task.task_id)
    return None if found is None else str(found)
