"""The DAG for all streams, in whose form a user asks for a change of a stream's state or a savepoint. Wiring only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer_airflow.errors import say_what_to_do
from sessionizer_airflow.operating.approval import ApprovePlan
from sessionizer_airflow.operating.jobs import (
    CarryOut,
    MakePlan,
    MakeSavepoint,
    PromoteLineage,
    ReadForm,
    SendTestAlert,
)
from sessionizer_airflow.operating.request import PROMOTE, SAVEPOINT, TEST_ALERT, form_of, list_choices, purposes
from sessionizer_airflow.operating.results import CARRY_OUT, tell_of_failure, tell_of_scheduled_failure
from sessionizer_airflow.project import platform_dag_options

if TYPE_CHECKING:
    from sessionizer_airflow.dags.factory import Wiring


DOCUMENTATION = """
Saves the open state of a stream, or changes it.

Choose in the form:

{operations}

All except **savepoint**, **promote** and **test_alert** make a plan first, which changes nothing. The plan waits under
**Required Actions** until a user approves or rejects it. Without an answer it is rejected after a while. If it is
approved, exactly that plan runs, and the stream runs again. If it is rejected, the stream is not changed.

`{platform}.upgrade` has a form for an upgrade alone.
"""

MINUTE = timedelta(minutes=1)
# The stream is down, so this job goes before any report. It is retried until a job with a lost worker has had time to
# end.
SOON: dict[str, Any] = {
    "priority_weight": 100,
    "retries": 5,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": 2.0,
}


def operate_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``."""
    operations = "\n".join(f"- **{operation}**: {purpose}." for operation, purpose in purposes().items())
    documentation = DOCUMENTATION.format(operations=operations, platform=platform)
    with DAG(
        **form_dag_options("operate", documentation, wiring, platform),
        schedule=None,
        params=form_of(wiring.stream_names, savepoints=list_choices(map(wiring.project.home_of, wiring.stream_names))),
        allowed_run_types=["manual", "operator_triggered"],  # type: ignore[list-item]  # Airflow takes the names
    ) as dag:
        asked = read_form(wiring, {each: "plan" if each in COMMANDS else each for each in purposes()})
        asked >> MakeSavepoint(task_id=SAVEPOINT, retries=1, retry_delay=MINUTE, **job_options(wiring))
        asked >> PromoteLineage(task_id=PROMOTE, project=wiring.project)
        asked >> SendTestAlert(task_id=TEST_ALERT, project=wiring.project)
        add_approved_change(wiring, asked)
    return dag


def form_dag_options(verb: str, documentation: str, wiring: Wiring, platform: str) -> dict[str, Any]:
    """Return the options of a DAG with a form and an approval."""
    patience = timedelta(milliseconds=wiring.approval.patience_ms, hours=4)
    return {
        **platform_dag_options(verb, documentation, run_limit=patience, platform=platform),
        # A run that waits for approval must not block other streams. Each stream takes one run at a time.
        "max_active_runs": 16,
    }


def read_form(wiring: Wiring, first_task: Mapping[str, str]) -> ReadForm:
    """Return the task that checks the form, and branches to the first task of its verb."""
    return ReadForm(
        task_id="read_form", project=wiring.project, first_task=first_task, retries=1, retry_delay=timedelta(seconds=10)
    )


def job_options(wiring: Wiring) -> dict[str, Any]:
    """Return the options of a Spark job of the form."""
    # A user waits for it, so it does not wait for the reports and the scheduled savepoints of all streams.
    pool = wiring.supervision.command_pool
    return {"project": wiring.project, "pool": pool, "execution_timeout": timedelta(hours=1)}


def add_approved_change(wiring: Wiring, asked: ReadForm) -> None:
    """Add the tasks that plan the change of the form, have it approved, and carry it out."""
    job = job_options(wiring)
    told: dict[str, Any] = {"on_failure_callback": [tell_of_scheduled_failure, say_what_to_do]}
    plan = MakePlan(task_id="plan", retries=1, retry_delay=MINUTE, **told, **job)
    approve = ApprovePlan(task_id="approve", project=wiring.project, settings=wiring.approval, **told)
    carry_out = CarryOut(
        task_id=CARRY_OUT,
        approval="approve",
        settings=wiring.supervision,
        # The remedy must be the last line of the log, so its callback is last.
        on_failure_callback=[tell_of_failure, say_what_to_do],
        **job,
        **SOON,
    )
    asked >> plan >> approve >> carry_out


UPGRADE_DOCUMENTATION = """
Upgrades a stream to its changed spec and to the installed release.

Choose a stream in the form. The plan names each difference with its verdict, changes nothing, and waits under
**Required Actions** until a user approves or rejects it. Without an answer it is rejected after a while. If it is
approved, exactly that plan runs, and the stream runs again. If it is rejected, the stream is not changed.

- **Accept** takes the names of differences by which open sessions lack something, one per line. A first plan names
  them.

`sessionizer.maintenance` starts runs of this DAG in the maintenance windows of the specs (`upgrades.window`). There the
approval waits until the window ends at the latest. With `upgrades.policy: apply` no user is asked, as long as open
sessions lack nothing. What was begun is finished, also after the end of the window.
"""


def upgrade_dag(wiring: Wiring, platform: str) -> DAG:
    """Return the DAG of ``platform``."""
    with DAG(
        **form_dag_options(Upgrade.name, UPGRADE_DOCUMENTATION, wiring, platform),
        schedule=None,
        params=form_of(wiring.stream_names, only=Upgrade.name),
        allowed_run_types=["manual", "operator_triggered"],  # type: ignore[list-item]  # Airflow takes the names
    ) as dag:
        add_approved_change(wiring, read_form(wiring, {Upgrade.name: "plan"}))
    return dag
