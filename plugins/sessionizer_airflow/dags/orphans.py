"""The DAG for all streams that reports faults that no watch can see. Wiring only, see ``reports`` of the plugin."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from sessionizer.control.patience import MINUTE
from sessionizer_airflow.house import platform_dag_options
from sessionizer_airflow.reports.orphans import ReportOrphans
from sessionizer_airflow.reports.stuck import ReportStuck
from sessionizer_airflow.reports.unwatched import ReportUnwatched

if TYPE_CHECKING:
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Reports drivers that nobody supervises, streams that should run and do not, and commands that no process carries out.

**`report_orphans`**: a driver runs though no spec describes its stream: that was renamed, or removed from the folder.
Such a driver goes on writing. It is never ended from here: **a failed run** names it, with the command that stops it at
a batch boundary (`sessionizer stop <name>`). To keep it, put its spec back.

**`report_unwatched`**: a driver runs, and its last watch is over for several minutes: its DAG `supervise` is paused, or
its DAG file was removed. Or a stream is wanted, its driver is dead or hangs, and nothing has been done about it for as
long: its DAG is paused, or Airflow does not get round to it. **A failed run** names it, with what to do.

**`report_stuck`**: a restore or the like has a stream, and no process has carried it out for several minutes: it was
killed, its run was marked, or its last try failed. The stream is down until it is over. **A failed run** names it,
with the command that goes on with it.
"""

# A finding fails at once, because a retry cannot fix it. Retries are for workers that Airflow could not start.
RETRIES: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=10)}


def orphans_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``."""
    project, policy = wiring.project, wiring.supervision.policy
    # By then a working watch has launched a driver, failed or given up.
    unwatched_after = policy.longest_backoff_ms + max(policy.startup_grace_ms, policy.stale_limit_ms) + MINUTE
    with DAG(
        **platform_dag_options("orphans", DOCUMENTATION, run_limit=timedelta(minutes=10), platform=platform),
        schedule=timedelta(minutes=5),
        # Not paused on creation, because this DAG only reads.
        is_paused_upon_creation=False,
    ) as dag:
        ReportOrphans(task_id="report_orphans", project=project, **RETRIES)
        ReportUnwatched(task_id="report_unwatched", project=project, patience=unwatched_after, **RETRIES)
        ReportStuck(task_id="report_stuck", project=project, patience=policy.unattended_after_ms, **RETRIES)
    return dag
