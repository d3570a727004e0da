"""What a form may ask for, what its jobs are called with, and what is shown to whoever approves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import TaskAwaitingInput

from sessionizer.control.records.desired_state import DesiredState
from sessionizer.control.records.operation_record import Ending, OperationRecord
from sessionizer.control.records.plan_record import PlanRecord, keep_plan_of
from sessionizer.errors import InvalidSpec
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.operating import approval
from sessionizer_airflow.operating.approval import Approved, ApprovePlan, approval_alert, body_of, name_of, subject_of
from sessionizer_airflow.operating.jobs import CarryOutRestore, MakeSavepoint, PlanRestore, requested, restore_of
from sessionizer_airflow.operating.request import Operation, Request, request_id
from sessionizer_airflow.operators.failed_task import PersonNeeded
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionSettings

if TYPE_CHECKING:
    from pathlib import Path

RUN = "manual__2026-11-23T10:00:00+00:00_x"
RESTORE = {"verb": "restore", "stream": "clicks", "savepoint": "s1", "time": None, "why": None}
PLAN = PlanRecord(
    request=request_id(RUN),
    verb="restore",
    stream="clicks",
    savepoint="s1",
    digest="0123456789abcdef",
    possible=True,
    text="stream clicks goes back to savepoint s1\n  sessions: 3 rows are taken back",
    made_at=1,
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.from_environment({"SESSIONIZER_HOME": str(tmp_path)})


def context(form: dict[str, Any], **more: Any) -> Any:
    run = SimpleNamespace(run_after=datetime(2026, 11, 23, 10, tzinfo=UTC))
    return {"run_id": RUN, "params": form, "dag_run": run, **more}


def test_a_request_is_the_same_for_every_try_of_its_run() -> None:
    assert Request.of_run(RUN, RESTORE) == Request.of_run(RUN, RESTORE)
    assert Request.of_run(RUN, RESTORE).id != Request.of_run(f"{RUN}y", RESTORE).id


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"savepoint": None}, "savepoint"),
        ({"time": "2026-11-23T10:00:00Z"}, "savepoint"),
        ({"savepoint": "--home"}, "savepoint"),
        ({"stream": "../clicks"}, "stream"),
        ({"verb": "savepoint"}, "savepoint"),
        ({"verb": "savepoint", "savepoint": "", "time": "2026-11-23T10:00:00Z"}, "time"),
    ],
)
def test_a_form_that_contradicts_itself_starts_nothing(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        Request.of_run(RUN, {**RESTORE, **changes})
    assert refused.value.field == field
    with pytest.raises(PersonNeeded) as told:
        requested(context({**RESTORE, **changes}))
    assert told.value.remedy == "run this DAG again, and fill the form in so"


def test_what_may_be_left_out_may_be_empty() -> None:
    form = {"verb": "savepoint", "stream": "clicks", "savepoint": "", "time": None, "why": ""}
    assert Request.of_run(RUN, form) == Request(
        id=request_id(RUN), operation=Operation.SAVEPOINT, stream="clicks", savepoint=None, time=None, why=""
    )


def test_a_savepoint_that_is_asked_for_has_one_id_in_every_try(project: Project) -> None:
    task = MakeSavepoint(task_id="t", project=project)
    form = {"verb": "savepoint", "stream": "clicks", "why": "before the weekend"}
    arguments = task.arguments(Request.of_run(RUN, form), context(form))
    assert arguments[:3] == ("savepoint", "create", "clicks")
    assert arguments[3:7] == ("--id", f"20261123T100000-{request_id(RUN)[:6]}", "--why", "before the weekend")


@pytest.mark.parametrize(
    ("changes", "to"),
    [({}, ("s1",)), ({"savepoint": None, "time": "2026-11-23T10:00:00Z"}, ("--time", "2026-11-23T10:00:00Z"))],
)
def test_a_plan_is_kept_for_its_request(changes: dict[str, Any], to: tuple[str, ...], project: Project) -> None:
    form = {**RESTORE, **changes}
    arguments = PlanRestore(task_id="t", project=project).arguments(Request.of_run(RUN, form), context(form))
    assert arguments == ("restore", "clicks", *to, "--keep-plan", request_id(RUN), "--home", str(project.home))


def test_what_was_approved_is_carried_out_and_nothing_fresher(project: Project) -> None:
    """Even where a time was asked for: by then it may mean another savepoint."""
    approved = {"savepoint": "s1", "digest": "0123456789abcdef", "by": "alice (Airflow)"}
    pulled = SimpleNamespace(xcom_pull=lambda task_ids: approved if task_ids == "approve" else None)
    settings = SupervisionSettings.from_environment({})
    task = CarryOutRestore(task_id="t", project=project, settings=settings, approval="approve")
    form = {**RESTORE, "savepoint": None, "time": "2026-11-23T10:00:00Z"}
    assert task.arguments(Request.of_run(RUN, form), context(form, ti=pulled)) == (
        "restore", "clicks", "s1", "--approve", "0123456789abcdef", "--by", "alice (Airflow)",
        "--home", str(project.home),
    )  # fmt: skip


def test_a_request_keeps_its_first_plan(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    assert keep_plan_of(home, PLAN) == PLAN
    assert keep_plan_of(home, replace(PLAN, digest="f" * 16)) == PLAN


def test_the_body_shows_the_plan_and_its_digest_as_they_are() -> None:
    assert subject_of(PLAN) == "Restore clicks to savepoint s1?"
    body = body_of(PLAN, "a bad deployment\n```\n# Approve me")
    assert body.startswith(f"```\n{PLAN.text}\nwhy: a bad deployment\n'''\n# Approve me\n```\n\n")
    assert body.count("```") == 2, "what a person wrote ends the block"
    assert "Digest `0123456789abcdef`" in body


def waiting(project: Project, monkeypatch: pytest.MonkeyPatch) -> ApprovePlan:
    """Parks without an Airflow to ask."""

    def park(self: ApprovalOperator, context: Any) -> None:
        raise TaskAwaitingInput(method_name="execute_complete")

    monkeypatch.setattr(ApprovalOperator, "execute", park)
    return ApprovePlan(task_id="approve", project=project)


def test_the_plan_of_the_run_is_shown(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_plan_of(StreamHome.of(project.home, "clicks"), PLAN)
    task = waiting(project, monkeypatch)
    with pytest.raises(TaskAwaitingInput):
        task.execute(context(RESTORE))
    assert (task.subject, task.body) == (subject_of(PLAN), body_of(PLAN, ""))


def test_nobody_is_asked_about_what_cannot_be_done(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_plan_of(StreamHome.of(project.home, "clicks"), replace(PLAN, possible=False))
    with pytest.raises(PersonNeeded) as told:
        waiting(project, monkeypatch).execute(context(RESTORE))
    assert "sessionizer savepoint list clicks" in told.value.remedy


def test_a_plan_that_is_gone_is_not_made_up(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PersonNeeded, match="it is gone"):
        waiting(project, monkeypatch).execute(context(RESTORE))


def answered(project: Project, option: str, user: object) -> dict[str, str] | None:
    """What the task returns once Airflow has an answer."""
    event = {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": datetime(2026, 11, 23, 11, tzinfo=UTC),
        "responded_by_user": user,
    }
    return ApprovePlan(task_id="approve", project=project).execute_complete(context(RESTORE), event)


def test_an_approval_hands_on_what_was_shown_and_who_approved(project: Project) -> None:
    keep_plan_of(StreamHome.of(project.home, "clicks"), PLAN)
    found = answered(project, "Approve", {"id": "7", "name": "alice"})
    assert found is not None
    assert Approved(**found) == Approved(savepoint="s1", digest=PLAN.digest, by="alice (Airflow)")


@pytest.mark.parametrize("user", [{"id": "7", "name": "alice"}, None])
def test_a_rejection_hands_on_nothing(user: object, project: Project) -> None:
    assert answered(project, "Reject", user) is None


@pytest.mark.parametrize(
    ("user", "name"),
    [(None, "nobody: the time was up"), ({"id": "7", "name": "alice"}, "alice"), (SimpleNamespace(name="bob"), "bob")],
)
def test_who_answered_is_named(user: object, name: str) -> None:
    assert name_of(user) == name


def test_people_are_told_that_they_are_waited_for(
    project: Project, notified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = "http://airflow/dags/sessionizer.operate/runs/r/tasks/approve/required_actions"
    monkeypatch.setattr(approval, "link_to", lambda task, context: link)
    task = ApprovePlan(task_id="approve", project=project)
    task.subject = subject_of(PLAN)
    task.notifiers[0].notify(context(RESTORE, task=task))
    text = notified.read_text()
    assert "clicks wants approval: Restore clicks to savepoint s1?" in text
    assert link in text
    assert "Required Actions" in approval_alert("clicks", "x", None).what_to_do


def operation(identity: str, digest: str, outcome: Ending | None, at: int) -> OperationRecord:
    return OperationRecord(
        id=identity, verb="restore", stream="clicks", by="alice", digest=digest, savepoint="s1", lineage_from="l1",
        batch_from=7, wanted=DesiredState.RUNNING, begun_at=at, step_at=at, outcome=outcome,
    )  # fmt: skip


def test_the_days_are_those_of_the_restore_that_was_approved() -> None:
    approved = Approved(savepoint="s1", digest="a", by="alice")
    records = [
        operation("1", "a", Ending.DONE, 1),
        operation("2", "a", Ending.DONE, 2),
        operation("3", "a", None, 3),
        operation("4", "b", Ending.DONE, 4),
    ]
    found = restore_of(records, approved)
    assert found is not None
    assert found.id == "2"
    assert restore_of([], approved) is None
