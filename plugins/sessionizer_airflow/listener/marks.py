"""Hears it in the API server when a person marks a supervising task: also while it is queued, or changes hands.

Airflow tells a worker that its task was marked at the task's next heartbeat, and the triggerer when it next looks; a
task that is on its way from one to the other is told by neither. The listener is called by whoever makes the mark.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow.listeners import hookimpl

from sessionizer.control.records.desired_state import DesiredState, examine_desired
from sessionizer.control.records.watch_record import read_watch
from sessionizer.home.names import supervised_stream
from sessionizer.home.platform_home import HOME_VARIABLE
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.errors import HomeMissing
from sessionizer_airflow.listener.user_kill import stop_for_good
from sessionizer_airflow.project import Project

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.state import TaskInstanceState

OPERATOR: Final = "SuperviseStream"
MARKED: Final = "manually set"
"""What Airflow 3.3.2 says of a run that a person has marked."""

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


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Airflow calls it for every run that fails; of a mark it says so. The task may be one that nobody is told of."""
    if MARKED in msg:
        stop_marked_run(dag_run, "failed")


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """As above."""
    if MARKED in msg:
        stop_marked_run(dag_run, "success")


def stop_marked(task: TaskInstance, state: str) -> None:
    """Stop the stream whose supervising task was marked; what supervises none is let be."""
    if task.operator == OPERATOR:
        _stop(task.dag_id, task.run_id, f"task {task.dag_id}.{task.task_id} was marked {state}")


def stop_marked_run(run: DagRun, state: str) -> None:
    """Stop the stream whose supervising run was marked."""
    if run.dag is not None and any(task.task_type == OPERATOR for task in run.dag.tasks):
        _stop(run.dag_id, run.run_id, f"run {run.run_id} of {run.dag_id} was marked {state}")


def _stop(dag_id: str, run_id: str, why: str) -> None:
    """Unless the run is over, or was marked a moment ago: together with its task."""
    stream = supervised_stream(dag_id)
    home = _home_of(stream) if stream is not None else None
    if home is None:
        return
    home.prepare()
    watch, desired = read_watch(home), examine_desired(home).value
    if watch is not None and watch.is_past(run_id):
        log.info("%s: the run is over, its stream is let be", why)
    elif desired is None or desired.state is DesiredState.RUNNING:
        stop_for_good(home, why, log.info)


def _home_of(stream: str) -> StreamHome | None:
    """None where this process knows no platform home: one that is made here would be one that no driver knows."""
    try:
        platform = Project.from_environment().home
    except HomeMissing as error:
        log.error("%s is not stopped: %s", stream, error)  # noqa: TRY400  a line says it all
        return None
    if not platform.is_dir():
        log.error("%s is not stopped: this process sees no platform home at %s (%s)", stream, platform, HOME_VARIABLE)
        return None
    return StreamHome.of(platform, stream)
