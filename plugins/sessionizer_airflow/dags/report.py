"""The DAG of a stream that rebuilds ``sessions_daily`` when new sessions have landed. Wiring only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG

from sessionizer.home.names import Verb
from sessionizer_airflow.assets import report_due_asset, watched_sessions_asset
from sessionizer_airflow.dag_defaults import dag_options
from sessionizer_airflow.launching.argv import report_argv
from sessionizer_airflow.operators.batch_jobs import batch_job

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.stream import StreamSpec
    from sessionizer_airflow.dags.wiring import Wiring

DOCUMENTATION = """
Rebuilds `sessions_daily` from the sessions that have landed.

Runs when new rows have landed, at most every five minutes (`SESSIONIZER_REPORT_INTERVAL`), with an event of the asset
`{stream}.report_due`. The asset `{stream}.sessions` has an event at most every minute. It carries the Delta version,
the number of rows and the watermark. Schedule your own DAGs with `schedule=[sessions_asset("{stream}")]`, after
`from sessionizer_airflow import sessions_asset`.
"""


def report_dag(spec: StreamSpec, wiring: Wiring) -> DAG:
    """Return the DAG that rebuilds the daily table of ``spec``."""
    project, settings = wiring.project, wiring.supervision
    documentation = DOCUMENTATION.format(stream=spec.name)
    with DAG(
        **dag_options(spec, Verb.REPORT, documentation, run_limit=timedelta(hours=2)),
        schedule=[
            watched_sessions_asset(spec.name, project.home, settings.landing_interval_ms),
            report_due_asset(spec.name, project.home, settings.report_interval_ms),
        ],
    ) as dag:
        batch_job(
            task_id="sessions_daily",
            name=f"{spec.name}.report",
            arguments=report_argv(project.folders, spec.name),
            project=project,
            pool=wiring.pool,
            execution_timeout=timedelta(hours=1),
            retries=2,
            retry_delay=timedelta(minutes=1),
        )
    return dag
