"""Airflow listener: users' marks on supervising tasks stop a stream, and runs of ``sessionizer.operate`` get a note.

It also hears of a mark on a task that is queued, or that moves between worker and triggerer. Airflow tells a worker of
a mark at the task's next heartbeat, and the triggerer when it next looks. A task on its way from one to the other hears
of it from neither. The process that makes the mark calls the listener.

A worker cannot write a note, which describes a run in a list of runs. Airflow calls the listener in the scheduler,
within the transaction that changes the run. So the note is written or rolled back with the change.
"""

import logging
from typing import Final

from airflow.listeners import hookimpl
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import TaskInstanceState

from sessionizer.control.maintenance import ask_to_stop
from sessionizer.control.records.supervision_records import WATCH_FILE, DesiredState, examine_desired, write_desired
from sessionizer.home.names import parse_supervising_dag
from sessionizer.home.roots import HOME_VARIABLE
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.errors import HomeMissing
from sessionizer_airflow.internals import find_returned_tasks
from sessionizer_airflow.operating.request import id_of_run
from sessionizer_airflow.operating.results import is_operate, join_label, result_of, title_of
from sessionizer_airflow.project import Project

OPERATOR: Final = "SuperviseStream"
log = logging.getLogger(__name__)


@hookimpl
def on_task_instance_failed(previous_state: TaskInstanceState | None, task_instance: TaskInstance) -> None:
    """Stop the stream if a user marked its task. Airflow calls this for each failed task."""
    _stop_marked(previous_state, task_instance, "failed")


@hookimpl
def on_task_instance_success(previous_state: TaskInstanceState | None, task_instance: TaskInstance) -> None:
    """Stop the stream if a user marked its task as successful."""
    _stop_marked(previous_state, task_instance, "success")


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the interface
    """Note the verb and stream of the run."""
    note_run(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Note where the run failed, and stop the stream if a user marked it. The listener may hear of no task then."""
    note_run(dag_run, succeeded=False)
    _stop_marked_run(dag_run, msg, "failed")


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """Note the result of the run, and stop the stream of a supervising run that a user marked as successful."""
    note_run(dag_run, succeeded=True)
    _stop_marked_run(dag_run, msg, "success")


def _stop_marked(previous_state: TaskInstanceState | None, task: TaskInstance, state: str) -> None:
    """Stop the stream whose supervising task was marked. Only a mark has no previous state."""
    if previous_state is None and task.operator == OPERATOR:
        _stop(task.dag_id, task.run_id, f"task {task.dag_id}.{task.task_id} was marked {state}")


def _stop_marked_run(run: DagRun, msg: str, state: str) -> None:
    """Stop the stream whose supervising run was marked, as the message of Airflow 3.3.2 tells."""
    if "manually set" in msg and run.dag is not None and any(task.task_type == OPERATOR for task in run.dag.tasks):
        _stop(run.dag_id, run.run_id, f"run {run.run_id} of {run.dag_id} was marked {state}")


def _stop(dag_id: str, run_id: str, why: str) -> None:
    """Stop the stream, unless the run is over or was marked a moment ago together with its task."""
    stream = parse_supervising_dag(dag_id)
    if stream is None:
        return
    try:
        platform = Project.from_environment().home
    except HomeMissing as error:  # drivers would not know a new one
        log.error("%s is not stopped: %s", stream, error)  # noqa: TRY400  a line says it all
        return
    if not platform.is_dir():
        log.error("%s is not stopped: this process sees no platform home at %s (%s)", stream, platform, HOME_VARIABLE)
        return
    home = StreamHome.of(platform, stream)
    home.prepare()
    watch, desired = WATCH_FILE.of(home).read(), examine_desired(home).value
    if watch is not None and watch.is_past(run_id):
        log.info("%s: the run is over, its stream is left as it is", why)
    elif desired is None or desired.state is not DesiredState.STOPPED:
        write_desired(home, DesiredState.STOPPED, by="a user of Airflow", why=why)
        ask_to_stop(home, why, log.info)


def note_run(run: DagRun, *, succeeded: bool | None = None) -> None:
    """Write the note, unless a user wrote one. ``succeeded``: None while the run is under way. Never raises."""
    if not is_operate(run.dag_id):
        return
    try:
        title = title_of(run.conf or {})
        if run.note and not run.note.startswith(title):
            return
        result = ""
        if succeeded is not None:
            states = {task.task_id: None if task.state is None else str(task.state) for task in run.task_instances}
            savepoint = id_of_run(run.run_id, run.run_after)
            result = result_of(states, find_returned_tasks(run), savepoint, succeeded=succeeded)
        run.note = join_label(title, result)
    except Exception as error:  # noqa: BLE001  a note must not stop the scheduler
        log.warning("run %s has no note: %s: %s", run.run_id, type(error).__name__, error)
