"""Runs and tasks of `sessionizer.operate`: their labels, and the tasks besides a plan: marked by hand, tried before."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool
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
from sessionizer_airflow.listener import note_run
from sessionizer_airflow.operating import jobs as direct_tasks
from sessionizer_airflow.operating.jobs import (
    CarryOut,
    MakePlan,
    MakeSavepoint,
    PromoteLineage,
    ReadForm,
    SendTestAlert,
)
from sessionizer_airflow.operating.request import Request, id_of_run, purposes
from sessionizer_airflow.operating.results import SHOWN, find_abandoner, join_label, result_of, title_of
from sessionizer_airflow.project import OPERATE, Project
from sessionizer_airflow.supervision.policy import SupervisionSettings
from support.fixtures.reviewed import Reviewed
from support.places import known
from support.processes.fabricated_platform import make_canary
from support.processes.file_notifier import told
from support.verbs.asked_restore import PLAN, RUN, context, operation
from support.verbs.asked_restore import RESTORE as ASKED_RESTORE
from support.verbs.scripted_runner import ScriptedRunner

ASKED_AT = datetime(2026, 11, 23, 10, tzinfo=UTC)
RESTORE = {"verb": "restore", "stream": "clicks", "savepoint": "monday"}


@pytest.mark.parametrize(
    ("form", "title"),
    [
        (RESTORE, "restore clicks to monday"),
        ({**RESTORE, "savepoint": None, "time": "2026-11-23T10:00"}, "restore clicks to 2026-11-23T10:00"),
        ({**RESTORE, "savepoint": None}, "restore clicks"),
        ({"verb": "rescale", "stream": "visits", "savepoint": "left over"}, "rescale visits"),
        ({"stream": "visits", "accept": None}, "upgrade visits"),
        ({"verb": None}, "nothing of no stream"),
    ],
)
def test_a_title_has_verb_stream_and_goal(form: dict[str, Any], title: str) -> None:
    assert title_of(form) == title


@pytest.mark.parametrize(
    ("states", "returned", "succeeded", "result"),
    [
        ({"read_form": "success", "savepoint": "success", "carry_out": "skipped"}, "savepoint", True, "savepoint s1"),
        ({"plan": "success", "approve": "success", "carry_out": "success"}, "carry_out", True, "done"),
        ({"plan": "success", "approve": "success", "carry_out": "skipped"}, "approve", True, "rejected"),
        ({"plan": "failed", "approve": "upstream_failed", "carry_out": "upstream_failed"}, "", False, "failed at plan"),
        ({"plan": "success", "approve": "success", "carry_out": "failed"}, "approve", False, "failed at carry_out"),
        ({"plan": "skipped"}, "", False, "failed"),
    ],
)
def test_a_result_follows_from_the_tasks(states: dict[str, str], returned: str, succeeded: bool, result: str) -> None:
    assert result_of(states, {returned}, "s1", succeeded=succeeded) == result


@pytest.mark.parametrize("task", ["savepoint", "carry_out", "promote", "test_alert"])
def test_a_task_that_a_user_marked_is_not_done(task: str, reviewed: Reviewed) -> None:
    """The job was killed in its middle, or never began. A restore then leaves its stream down."""
    reviewed(result_of({"approve": "success", task: "success"}, {"approve"}, "s1", succeeded=True))


@pytest.mark.parametrize("state", ["success", "failed", "skipped", None])
@pytest.mark.parametrize("succeeded", [True, False])
def test_what_is_done_stays_done_whatever_a_user_marks_or_clears(state: str | None, succeeded: bool) -> None:
    """A cleared approval may be rejected, and a run may be marked."""
    states = {"approve": "success", "carry_out": state}
    assert result_of(states, {"approve", "carry_out"}, "", succeeded=succeeded) == "done"


WISH = "restore clicks to monday"


def run_of(form: dict[str, Any], dag: str = OPERATE, note: str | None = None) -> DagRun:
    return DagRun(dag_id=dag, run_id=RUN, run_type="manual", conf=form, run_after=ASKED_AT, note=note)


def test_a_run_has_a_note_from_its_beginning_to_its_end() -> None:
    run = run_of(RESTORE)
    note_run(run)
    assert run.note == WISH
    note_run(run, succeeded=False)
    assert run.note == f"{WISH} → failed"
    note_run(run)
    assert run.note == WISH, "it was cleared"


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    DagRun.metadata.create_all(engine)
    with Session(engine) as opened:
        yield opened


@pytest.mark.parametrize(("returned", "result"), [("carry_out", "done"), ("approve", "carry_out was marked success")])
def test_the_note_tells_a_mark_from_work_by_what_the_task_returned(
    session: Session, returned: str, result: str
) -> None:
    run = run_of(RESTORE)
    session.add(run)
    session.flush()
    of_run = {"dag_id": OPERATE, "run_id": RUN, "map_index": -1}
    session.execute(insert(TaskInstance), [state_of(task) | of_run for task in ("approve", "carry_out")])
    kept = {"dag_run_id": run.id, "task_id": returned, "key": "return_value", "value": '"x"'}
    session.execute(
        insert(XComModel), [kept | of_run, kept | of_run | {"task_id": "carry_out", "key": "skipmixin_key"}]
    )
    note_run(run, succeeded=True)
    assert known(run.note).startswith(f"{WISH} → {result}")


def state_of(task: str) -> dict[str, Any]:
    return {"id": uuid4(), "task_id": task, "state": "success", "try_number": 1, "pool": "default_pool"}


@pytest.mark.parametrize(("dag", "note"), [(OPERATE, "see ticket 7"), ("clicks.supervise", None)])
def test_the_note_of_a_user_stays_and_other_runs_get_none(dag: str, note: str | None) -> None:
    run = run_of(RESTORE, dag, note)
    note_run(run, succeeded=True)
    assert run.note == note


def test_what_cannot_be_noted_does_not_stop_the_scheduler() -> None:
    note_run(SimpleNamespace(dag_id=OPERATE, run_id=RUN, conf=RESTORE, note=None), succeeded=True)  # type: ignore[arg-type]


def test_a_task_is_labelled(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionizer_airflow.operating.jobs.require_startable", lambda *_, **__: None)
    reads = ReadForm(task_id="read_form", project=project, first_task=dict.fromkeys(purposes(), "plan"))
    tasks = [reads, MakePlan(task_id="plan", project=project)]
    given = context(RESTORE)
    assert reads.choose_branch(given) == "plan"
    environment = DAG(OPERATE, schedule=None).get_template_env()
    for task in tasks:
        assert environment.from_string(str(task.map_index_template)).render(given) == WISH
        assert environment.from_string(str(task.map_index_template)).render({}) == ""
    assert given[SHOWN] == WISH


def test_the_id_of_a_savepoint_is_in_the_note(project: Project) -> None:
    form = {"verb": "savepoint", "stream": "clicks"}
    made = id_of_run(RUN, ASKED_AT)
    arguments = MakeSavepoint(task_id="t", project=project).arguments(Request.parse_form(form), context(form))
    assert made in arguments
    assert result_of({"savepoint": "success"}, {"savepoint"}, made, succeeded=True) == f"savepoint {made}"


def test_a_label_fits_into_its_column_with_its_result() -> None:
    label = join_label("x" * 1000, "done")
    assert len(label) <= 250
    assert label.endswith(" → done")


@pytest.fixture
def unlabelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(direct_tasks, "show_label", lambda context, result="": context.update({SHOWN: result}))
    (tmp_path / "streams").mkdir()
    return Project(application=tmp_path, streams=tmp_path / "streams", jars=tmp_path, home=tmp_path / "home")


def context_of_direct_tasks(verb: str) -> Any:
    run = SimpleNamespace(run_after=datetime(2026, 11, 26, tzinfo=UTC), triggering_user_name="olga")
    return {"run_id": "one", "dag_run": run, "params": {"verb": verb, "stream": "clicks"}}


def test_a_canary_is_promoted_by_the_user_of_the_run(unlabelled: Project) -> None:
    home = StreamHome.of(unlabelled.home, "clicks")
    home.prepare()
    lineage = make_canary(home)
    asked = context_of_direct_tasks("promote")
    PromoteLineage(task_id="promote", project=unlabelled).execute(asked)
    canary = known(read_canary(home, lineage))
    assert (canary.outcome, canary.by, canary.is_settled) == (CanaryOutcome.PROMOTED, "olga (Airflow)", True)
    assert asked[SHOWN] == "done"


def test_a_test_message_goes_through_the_notifier(unlabelled: Project, notified: Path) -> None:
    SendTestAlert(task_id="test_alert", project=unlabelled).execute(context_of_direct_tasks("test_alert"))
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
    notifier: str | None, reason: str, unlabelled: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONIZER_NOTIFIER_ARGUMENTS", raising=False)
    if notifier:
        monkeypatch.setenv("SESSIONIZER_NOTIFIER", notifier)
    with pytest.raises(PersonNeeded) as failed:
        SendTestAlert(task_id="test_alert", project=unlabelled).execute(context_of_direct_tasks("test_alert"))
    assert reason in failed.value.reason
    assert failed.value.remedy


FORMS: dict[str, dict[str, Any]] = {
    "restore": ASKED_RESTORE,
    **{verb: {"verb": verb, "stream": "clicks"} for verb in ("savepoint", "promote", "test_alert")},
}


def tasks_of(unlabelled: Project) -> dict[str, BaseOperator]:
    settings = SupervisionSettings.from_environment({})
    return {
        "savepoint": MakeSavepoint(task_id="savepoint", project=unlabelled),
        "promote": PromoteLineage(task_id="promote", project=unlabelled),
        "test_alert": SendTestAlert(task_id="test_alert", project=unlabelled),
        "plan": MakePlan(task_id="plan", project=unlabelled),
        "carry_out": CarryOut(task_id="carry_out", project=unlabelled, settings=settings, approval="approve"),
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
def test_a_task_that_the_form_does_not_ask_for_is_skipped(unlabelled: Project, verb: str, task: str) -> None:
    """All tasks start if a user marks ``read_form`` as successful, because a mark chooses no branch."""
    home = unlabelled.home_of("clicks")
    home.prepare()
    lineage = make_canary(home)
    before = read_canary(home, lineage)
    with pytest.raises(AirflowSkipException):
        tasks_of(unlabelled)[task].execute(context(FORMS[verb]))
    assert read_canary(home, lineage) == before, "a promotion that no user asked for"


def test_an_approval_that_was_marked_approves_nothing(unlabelled: Project, reviewed: Reviewed) -> None:
    given = context(ASKED_RESTORE, ti=SimpleNamespace(xcom_pull=lambda task_ids: None))
    with pytest.raises(PersonNeeded) as failed:
        tasks_of(unlabelled)["carry_out"].execute(given)
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
