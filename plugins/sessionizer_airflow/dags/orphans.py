"""The DAG for all streams that reports faults that no watch can see. Wiring only, see ``reports`` of the plugin."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from sessionizer.home.clock import MINUTE
from sessionizer_airflow.dag_defaults import platform_dag_options
from sessionizer_airflow.operators.streams_task import StreamsTask
from sessionizer_airflow.reports.assets import report_assets
from sessionizer_airflow.reports.orphans import report_orphans
from sessionizer_airflow.reports.stuck import report_stuck
from sessionizer_airflow.reports.unwatched import report_unwatched

if TYPE_CHECKING:
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Reports drivers without a spec, streams without a supervisor, unfinished commands without a process, and assets that
another DAG has taken. This DAG only reads. **A failed run** names what it found and what to do.

**`report_orphans`**: a driver runs, but no spec describes its stream, because the spec was renamed or removed. Such a
driver keeps writing. Stop it at a batch boundary with `sessionizer stop <name>`, or put its spec back.

**`report_unwatched`**: a driver runs, and its last watch ended several minutes ago, because its DAG `supervise` is
paused or its DAG file was removed. Or a stream should run, its driver is dead or hangs, and no supervisor has acted for
several minutes, because its DAG is paused or Airflow is too busy.

**`report_stuck`**: a command has stopped a stream, and no process has worked on it for several minutes. It was
killed, its run was marked, or its last try failed. The stream is down until the command is finished.

**`report_assets`**: another DAG declares an asset of a stream's name, such as `Asset("clicks.sessions")`, and Airflow
has given it the name. The stream's own asset then has no events.
"""

# A finding fails at once, because a retry cannot fix it. Retries are for workers that Airflow could not start.
RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}


def orphans_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``."""
    project, policy = wiring.project, wiring.supervision.policy
    # By then a working watch has launched a driver, failed or given up.
    unwatched_after = policy.longest_backoff_ms + max(policy.startup_grace_ms, policy.stale_limit_ms) + MINUTE
    stuck_after = policy.unattended_after_ms
    with DAG(
        **platform_dag_options("orphans", DOCUMENTATION, run_limit=timedelta(minutes=10), platform=platform),
        schedule=timedelta(minutes=5),
        # Not paused on creation, because this DAG only reads.
        is_paused_upon_creation=False,
    ) as dag:
        looks = {
            "report_orphans": lambda *told: report_orphans(project.home, project.streams, *told),
            "report_unwatched": lambda *told: report_unwatched(project.home, project.streams, unwatched_after, *told),
            "report_stuck": lambda *told: report_stuck(project.home, project.streams, stuck_after, *told),
            "report_assets": lambda say, _: report_assets(project.home, project.streams, say),
        }
        for task, look in looks.items():
            StreamsTask(task_id=task, look=look, **RETRIES)
    return dag
