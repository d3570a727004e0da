"""Hears it in the API server when a person marks a supervising task: also while it is queued, or changes hands.

Airflow tells a worker that its task was marked at the task's next heartbeat, and the triggerer when it next looks; a
task that is on its way from one to the other is told by neither. The listener is called by whoever makes the mark.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.listeners import hookimpl

from sessionizer.control.stream_home import StreamHome
from sessionizer_airflow.project import Project
from sessionizer_airflow.user_kill import stop_for_good

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.state import TaskInstanceState

SUPERVISING = ".supervise"
"""How the id of a DAG ends whose only task supervises the stream that the id begins with."""

log = logging.getLogger(__name__)


@hookimpl
def on_task_instance_failed(previous_state: TaskInstanceState | None, task_instance: TaskInstance) -> None:
    """Airflow calls it for every task that fails; a mark is the one with no state before."""
    if previous_state is None:
        stop_marked(task_instance, "failed")


@hookimpl
def on_task_instance_success(previous_state: TaskInstanceState | None, task_instance: TaskInstance) -> None:
    """As above."""
    if previous_state is None:
        stop_marked(task_instance, "success")


def stop_marked(task: TaskInstance, state: str) -> None:
    """Stop the stream whose supervising task was marked; what supervises none is let be."""
    if task.operator != "SuperviseStream" or not task.dag_id.endswith(SUPERVISING):
        return
    home = StreamHome.of(Project.from_environment().home, task.dag_id.removesuffix(SUPERVISING))
    home.prepare()
    stop_for_good(home, f"task {task.dag_id}.{task.task_id} was marked {state}", log.info)
