"""Marks by hand on the tasks of a form: a mark starts no other operation, and approves no plan."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.jobs import CarryOut, MakePlan, MakeSavepoint, PromoteLineage, SendTestAlert
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionSettings
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import make_canary
from support.verbs.asked_restore import RESTORE, context

FORMS: dict[str, dict[str, Any]] = {
    "restore": RESTORE,
    **{verb: {"verb": verb, "stream": "clicks"} for verb in ("savepoint", "promote", "test_alert")},
}


def tasks_of(project: Project) -> dict[str, BaseOperator]:
    settings = SupervisionSettings.from_environment({})
    return {
        "savepoint": MakeSavepoint(task_id="savepoint", project=project),
        "promote": PromoteLineage(task_id="promote", project=project),
        "test_alert": SendTestAlert(task_id="test_alert", project=project),
        "plan": MakePlan(task_id="plan", project=project),
        "carry_out": CarryOut(task_id="carry_out", project=project, settings=settings, approval="approve"),
    }


@pytest.mark.parametrize(
    ("verb", "task"),
    [
        (verb, task)
        for verb in FORMS
        for task in ("savepoint", "promote", "test_alert", "plan", "carry_out")
        if task != verb and not (verb == "restore" and task in {"plan", "carry_out"})
    ],
)
def test_a_task_that_the_form_does_not_ask_for_is_skipped(project: Project, verb: str, task: str) -> None:
    """All tasks start if a user marks ``read_form`` as successful, because a mark chooses no branch."""
    home = project.home_of("clicks")
    home.prepare()
    lineage = make_canary(home)
    before = read_canary(home, lineage)
    with pytest.raises(AirflowSkipException):
        tasks_of(project)[task].execute(context(FORMS[verb]))
    assert read_canary(home, lineage) == before, "a promotion that no user asked for"


def test_an_approval_that_was_marked_approves_nothing(project: Project, reviewed: Reviewed) -> None:
    given = context(RESTORE, ti=SimpleNamespace(xcom_pull=lambda task_ids: None))
    with pytest.raises(PersonNeeded) as failed:
        tasks_of(project)["carry_out"].execute(given)
    reviewed(failed.value.reason)
    reviewed(failed.value.remedy)
