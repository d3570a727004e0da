"""The DAG for all streams that makes the savepoints that their specs ask for. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG

from sessionizer_airflow.house import platform_dag_options
from sessionizer_airflow.operators.scheduled_savepoints import LABEL, FindDueStreams, PruneSavepoints, TakeSavepoint

if TYPE_CHECKING:
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Makes savepoints of the streams whose spec asks for them (`savepoints.every`), and removes those that are old.

Looks every five minutes. **`find_due`** says of each stream that asks whether it is due, and why: when its newest
savepoint is as old as its spec allows, and a batch was over since. **`create`** is one Spark job for each stream that
is due, listed under its name; the stream runs on meanwhile. One that fails keeps no other from its own, and is tried
again at the next look. **`prune`** removes what is older than `savepoints.keep`, but for the newest
`savepoints.at_least`; savepoints that people made are left alone.

As long as no spec asks, this DAG has no schedule.
"""


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
        due = FindDueStreams(task_id="find_due", project=project, retries=1, retry_delay=timedelta(seconds=10))
        TakeSavepoint.partial(
            task_id="create",
            map_index_template=LABEL,
            project=project,
            pool=wiring.pool,
            execution_timeout=timedelta(hours=1),
            retries=1,
            retry_delay=timedelta(minutes=1),
        ).expand_kwargs(due.output)
        PruneSavepoints(task_id="prune", project=project, retries=1, retry_delay=timedelta(seconds=10))
    return dag
