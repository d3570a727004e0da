"""One DAG for all streams: reports drivers whose spec is gone. Wiring only; see `sessionizer_airflow.orphans`."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from sessionizer_airflow.house import platform_dag_options
from sessionizer_airflow.orphans import ReportOrphans
from sessionizer_airflow.project import Project

DOCUMENTATION = """
Reports drivers that run though no spec describes their stream: it was renamed, or removed from the folder.

Such a driver goes on writing and is supervised by nobody. It is never ended from here: **a failed run** names it, with
the command that stops it at a batch boundary (`sessionizer stop <name>`). To keep it, put its spec back.
"""

with DAG(
    **platform_dag_options("orphans", DOCUMENTATION, run_limit=timedelta(minutes=10)),
    schedule=timedelta(minutes=5),
    # It only looks; a watchman whom somebody must remember to wake is none.
    is_paused_upon_creation=False,
):
    ReportOrphans(task_id="report_orphans", project=Project.from_environment(), retries=0)
