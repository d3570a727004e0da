"""A DAG per stream that rebuilds ``sessions_daily`` when new sessions have landed. Wiring only."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from sessionizer.home.names import Verb
from sessionizer.stream_spec.loading.folder import survey_streams
from sessionizer_airflow.assets import report_due_asset, sessions_asset
from sessionizer_airflow.house import dag_options
from sessionizer_airflow.launching.argv import ReportCall
from sessionizer_airflow.operators.batch_jobs import batch_job
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionSettings

DOCUMENTATION = """
Rebuilds `sessions_daily` from the sessions that have landed.

Runs when new rows have landed, at most once in five minutes (`SESSIONIZER_REPORT_INTERVAL`) however many have: then
the asset `{stream}.report_due` has an event. That of the table, `{stream}.sessions`, has one at most every minute, for
those who want to know sooner: it carries the Delta version, the number of rows and the watermark.
"""

project = Project.from_environment()
folders = project.folders
settings = SupervisionSettings.from_environment()

for spec in survey_streams(project.streams).specs.values():
    documentation = DOCUMENTATION.format(stream=spec.name)
    with DAG(
        **dag_options(spec, Verb.REPORT, documentation, run_limit=timedelta(hours=2)),
        schedule=[
            sessions_asset(spec.name, project.home, settings.landing_interval_ms),
            report_due_asset(spec.name, project.home, settings.report_interval_ms),
        ],
    ):
        batch_job(
            task_id="sessions_daily",
            name=f"{spec.name}.report",
            arguments=ReportCall(stream=spec.name, folders=folders).argv(),
            project=project,
            # Each job occupies a worker and a JVM for a while. Their own pool keeps supervision's slots free.
            pool=settings.report_pool,
            execution_timeout=timedelta(hours=1),
            retries=2,
            retry_delay=timedelta(minutes=1),
        )
