"""The DAG for all streams that makes the savepoints that their specs ask for. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from sessionizer_airflow.dag_defaults import platform_dag_options
from sessionizer_airflow.operators.scheduled_savepoints import (
    LABEL,
    TakeSavepoint,
    prune_savepoints,
    streams_due_for_savepoints,
)
from sessionizer_airflow.operators.streams_task import StreamsTask

if TYPE_CHECKING:
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Makes savepoints of the streams whose spec asks for them (`savepoints.every`), and removes those that are old.

Runs every five minutes, if a spec asks for savepoints.

- **`find_due`** says of each such stream whether a savepoint is due, and why. It is due if the newest one is as old
  as the spec allows and a batch has been committed since.
- **`create`** is one Spark job per due stream, listed under its name. The stream keeps running. If one fails, the
  others still run, and it is tried again five minutes later.
- **`prune`** removes savepoints older than `savepoints.keep`, except the newest `savepoints.at_least`. It never
  removes savepoints that users made.
"""
RETRY: dict[str, Any] = {"retries": 1, "retry_delay": timedelta(seconds=10)}


def savepoints_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``. It has a schedule only if a spec asks for savepoints."""
    project = wiring.project
    is_asked = any(spec.savepoints.every_ms is not None for spec in wiring.specs)
    with DAG(
        **platform_dag_options("savepoints", DOCUMENTATION, run_limit=timedelta(hours=3), platform=platform),
        schedule=timedelta(minutes=5) if is_asked else None,
        # Not paused on creation, because a spec asks for the savepoints.
        is_paused_upon_creation=False,
    ) as dag:
        due = StreamsTask(task_id="find_due", look=lambda say, _: streams_due_for_savepoints(project, say), **RETRY)
        TakeSavepoint.partial(
            task_id="create",
            map_index_template=LABEL,
            project=project,
            pool=wiring.pool,
            execution_timeout=timedelta(hours=1),
            retries=1,
            retry_delay=timedelta(minutes=1),
        ).expand_kwargs(due.output)
        StreamsTask(task_id="prune", look=lambda say, _: prune_savepoints(project, say), **RETRY)
    return dag
