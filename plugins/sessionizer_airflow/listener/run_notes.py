"""Notes on the runs of ``sessionizer.operate``, which describe them in a list of runs.

A worker cannot write a note. Airflow calls a listener in the scheduler, within the transaction that changes the run. So
the note is written or rolled back with the change.
"""

from __future__ import annotations

import logging

from airflow.listeners import hookimpl
from airflow.models.dagrun import DagRun

from sessionizer_airflow.internals import find_returned_tasks
from sessionizer_airflow.operating.request import id_of_run
from sessionizer_airflow.operating.results import is_operate, join_label, result_of, title_of

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the interface
    """Note the verb and stream of the run."""
    note_run(dag_run)


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the interface
    """Note the result of the run."""
    note_run(dag_run, succeeded=True)


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:  # noqa: ARG001 - the interface
    """Note the task at which the run failed."""
    note_run(dag_run, succeeded=False)


def note_run(run: DagRun, *, succeeded: bool | None = None) -> None:
    """Write the note, unless a user wrote one. ``succeeded``: None while the run is under way. Never raises."""
    if not is_operate(run.dag_id):
        return
    try:
        title = title_of(run.conf or {})
        if run.note and not run.note.startswith(title):
            return
        run.note = join_label(title, "" if succeeded is None else _result(run, succeeded=succeeded))
    except Exception as error:  # noqa: BLE001  a note must not stop the scheduler
        log.warning("run %s has no note: %s: %s", run.run_id, type(error).__name__, error)


def _result(run: DagRun, *, succeeded: bool) -> str:
    states = {task.task_id: None if task.state is None else str(task.state) for task in run.task_instances}
    savepoint = id_of_run(run.run_id, run.run_after)
    return result_of(states, find_returned_tasks(run), savepoint, succeeded=succeeded)
