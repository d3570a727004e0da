"""What a person means who acts on a watching task in the UI.

Mark as failed or as successful: the stream is to stop, and to stay stopped, though ``@continuous`` starts the next run
at once. ``marks`` hears that first, whatever the task is at, and alone writes down the desired state: who hears it
later, here, might overwrite a newer one. Clear: start it again, so the driver stops and another is launched; the new
try sees that it was cleared, or the worker, if it still finds the task being restarted. Anything else is not a person:
a run that timed out, a worker that was thought dead and whose task is tried again, a triggerer that handed the watch to
another, a worker that shuts down. Then the driver goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sessionizer.control.records.desired_state import DesiredState, read_desired, write_desired
from sessionizer.control.stopping import ask_to_stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome

STOPS = frozenset({"failed", "success"})
CLEARED = "its task was cleared"
BEING_CLEARED = "restarting"
"""Only a clear puts a task that a worker has into this state. What it comes to then, a retry comes to as well."""


class KilledTask(Protocol):
    """What is used of Airflow's task instance."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int | None
    try_number: int

    def get_task_states(
        self, dag_id: str, map_index: int | None, *, task_ids: list[str], run_ids: list[str]
    ) -> dict[str, Any]:
        """The states of tasks by run and task: asked of Airflow, so it may be called in the task's process only."""


def after_kill(home: StreamHome, task: KilledTask, say: Callable[[str], None]) -> None:
    """Do what the person meant who killed ``task`` at a worker, if it was a person.

    After a mark only a driver is left to be asked that was not there yet when the mark was made.
    """
    state = _state_of(task)
    if state in STOPS:
        if read_desired(home).state is not DesiredState.RUNNING:
            ask_to_stop(home, f"task {task.dag_id}.{task.task_id} was marked {state}", say)
    elif state == BEING_CLEARED:
        ask_to_stop(home, CLEARED, say)
    else:
        say(f"the watch of {home.name} was taken away ({state}); its driver goes on")


def stop_for_good(home: StreamHome, why: str, say: Callable[[str], None]) -> None:
    """Record that the stream is not wanted any more, and ask its drivers to stop."""
    write_desired(home, DesiredState.STOPPED, by="a user of Airflow", why=why)
    ask_to_stop(home, why, say)


def _state_of(task: KilledTask) -> str | None:
    """The state that the task instance has now; None after it was cleared."""
    states = task.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    found = states.get(task.run_id, {}).get(task.task_id)
    return None if found is None else str(found)
