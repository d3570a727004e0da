"""Tasks of a form besides its plan: without one, marked by hand, and tried before."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.lease import acquire
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord, read_operations
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.errors import DriverStillRuns
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating import jobs as direct_tasks
from sessionizer_airflow.operating.jobs import CarryOut, MakePlan, MakeSavepoint, PromoteLineage, SendTestAlert
from sessionizer_airflow.operating.results import SHOWN, find_abandoner
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionSettings
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import make_canary
from support.processes.file_notifier import told
from support.verbs.asked_restore import PLAN, RESTORE, context, operation
from support.verbs.scripted_runner import ScriptedRunner


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(direct_tasks, "show_label", lambda context, result="": context.update({SHOWN: result}))
    (tmp_path / "streams").mkdir()
    return Project(application=tmp_path, streams=tmp_path / "streams", jars=tmp_path, home=tmp_path / "home")


def context_of_direct_tasks(verb: str) -> Any:
    run = SimpleNamespace(run_after=datetime(2026, 11, 26, tzinfo=UTC), triggering_user_name="olga")
    return {"run_id": "one", "dag_run": run, "params": {"verb": verb, "stream": "clicks"}}


def test_a_canary_is_promoted_by_the_user_of_the_run(project: Project) -> None:
    home = StreamHome.of(project.home, "clicks")
    home.prepare()
    lineage = make_canary(home)
    asked = context_of_direct_tasks("promote")
    PromoteLineage(task_id="promote", project=project).execute(asked)
    canary = read_canary(home, lineage)
    assert canary is not None
    assert (canary.outcome, canary.by, canary.is_settled) == (CanaryOutcome.PROMOTED, "olga (Airflow)", True)
    assert asked[SHOWN] == "done"


def test_a_test_message_goes_through_the_notifier(project: Project, notified: Path) -> None:
    SendTestAlert(task_id="test_alert", project=project).execute(context_of_direct_tasks("test_alert"))
    (alert,) = told(notified)
    assert (alert["stream"], alert["kind"], alert["what_to_do"]) == ("clicks", "test", "")
    assert "olga" in alert["reason"]


@pytest.mark.parametrize(
    ("notifier", "reason"),
    [
        (None, "no notifier"),
        ("support.processes.file_notifier.FileNotifier", "TypeError"),
        ("no.such.Notifier", "no.such.Notifier"),
    ],
)
def test_a_message_that_cannot_be_sent_fails_the_task(
    notifier: str | None, reason: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONIZER_NOTIFIER_ARGUMENTS", raising=False)
    if notifier:
        monkeypatch.setenv("SESSIONIZER_NOTIFIER", notifier)
    with pytest.raises(PersonNeeded) as failed:
        SendTestAlert(task_id="test_alert", project=project).execute(context_of_direct_tasks("test_alert"))
    assert reason in failed.value.reason
    assert failed.value.remedy


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


APPROVED = replace(PLAN, planned_at=5)
GIVEN_UP = replace(operation("one", PLAN.digest, Ending.ABANDONED, 6), abandoned_by="olga")


def test_the_user_who_gave_the_plan_up_is_found() -> None:
    assert find_abandoner([GIVEN_UP], APPROVED) == "olga"


@pytest.mark.parametrize(
    "record",
    [
        replace(GIVEN_UP, begun_at=4),
        replace(GIVEN_UP, digest="f" * 16),
        replace(GIVEN_UP, abandoned_by=None),
    ],
    ids=["before the plan", "another plan", "failed"],
)
def test_another_end_is_no_reason_to_leave_the_plan(record: OperationRecord) -> None:
    assert find_abandoner([record], APPROVED) is None


def begin(home: StreamHome, digest: str = PLAN.digest) -> OperationRecord:
    """Try to carry the plan out while a driver is at work that does not end in time."""
    home.prepare()
    acquire(home, "driver-1")
    record = new_operation(home, "restore", digest, "alice (Airflow)", (start_lineage(home), 7), savepoint="s1")
    runner = ScriptedRunner(home=home, work=lambda *_: pytest.fail("it began"))
    with pytest.raises(DriverStillRuns):
        carry_out(home, record, "restore to s1", 0.1, runner)
    return record


def abandon(home: StreamHome) -> str:
    return CliRunner().invoke(app, ["abandon", "clicks", "--by", "olga", "--home", str(home.platform)]).stdout


@pytest.mark.parametrize("later", [None, DesiredState.RUNNING, DesiredState.STOPPED])
@pytest.mark.parametrize("before", [None, DesiredState.STOPPED])
def test_a_command_that_was_given_up_before_its_first_step_stays_so_after_a_start_or_stop(
    home: StreamHome, later: DesiredState | None, before: DesiredState | None
) -> None:
    approved = replace(APPROVED, planned_at=begin(home).begun_at)
    if before is not None:
        write_desired(home, before, by="tom", why="the stop, then the end of the command")
    abandon(home)
    assert read_desired(home).state is (before or DesiredState.RUNNING)
    if later is not None:
        write_desired(home, later, by="tom", why="before Airflow's next try")
    assert find_abandoner(read_operations(home), approved) == "olga"
    assert find_abandoner(read_operations(home), replace(approved, digest="f" * 16)) is None
    assert find_abandoner(read_operations(home), replace(approved, planned_at=approved.planned_at + 1)) is None
    assert "nothing to abandon" in abandon(home)


def test_another_command_that_was_given_up_before_its_first_step_does_not_hold_the_plan(home: StreamHome) -> None:
    approved = replace(APPROVED, planned_at=begin(home, "f" * 16).begun_at)
    abandon(home)
    assert find_abandoner(read_operations(home), approved) is None
