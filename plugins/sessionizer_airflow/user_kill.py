"""What a person means who acts on a watching task in the UI.

Mark as failed or as successful: the stream is to stop, and to stay stopped, though `@continuous` starts the next run at
once. Clear: start it again, so the driver drains and the new try launches another. Anything else is not a person:
a run that timed out, or a triggerer that handed the watch to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from sessionizer.control.desired_state import DesiredState, write_desired
from sessionizer.control.stop_marker import request_stop

from sessionizer_airflow.supervision.live_drivers import live_drivers

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.stream_home import StreamHome

STOPS = frozenset({"failed", "success"})
NOT_A_PERSON = frozenset({"deferred", "skipped"})


async def after_user_kill(home: StreamHome, task: Any, say: Callable[[str], None]) -> None:
    """Do what the person meant; `task` is the killed task instance."""
    state = await sync_to_async(state_of)(task)
    if state in NOT_A_PERSON:
        say(f"the watch of {home.name} was taken away ({state}); its driver goes on")
        return
    why = f"task {task.dag_id}.{task.task_id} was marked {state}" if state in STOPS else "its task was cleared"
    if state in STOPS:
        write_desired(home, DesiredState.STOPPED, by="a user of Airflow", why=why)
    for uid in live_drivers(home):
        request_stop(home, uid, why)
        say(f"driver {uid} is asked to drain: {why}")


def state_of(task: Any) -> str | None:
    """The state that the task instance has now; None after it was cleared."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    found = states.get(task.run_id, {}).get(task.task_id)
    return None if found is None else str(found)
