"""A run that a maintenance window started: approved by a policy or a user in time, and begun before the end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import OperationStage, keep_plan, require_request, write_request
from sessionizer.control.records.supervision_records import APPROVED_UPGRADE, ListApproval
from sessionizer.deployment.running_spec import new_record
from sessionizer.deployment.waiting import find_waiting
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.kept_spec import write_lineage_spec
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating import results as window
from sessionizer_airflow.operating.approval import ApprovalSettings, ApprovePlan
from sessionizer_airflow.operating.jobs import CarryOut, OperateJob
from sessionizer_airflow.operating.request import id_of_run
from sessionizer_airflow.operating.results import SCHEDULED, require_window, tell_of_scheduled_failure
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionSettings
from support.places import known
from support.processes.fabricated_platform import SHORT_SPEC
from support.processes.file_notifier import told
from support.verbs.asked_restore import PLAN, RUN_AFTER, context, park, park_approvals
from support.verbs.begun_restore import write_operation

FORM = {"verb": "upgrade", "stream": "clicks", "why": "maintenance window", "savepoint": None}
UPGRADE = replace(PLAN, verb="upgrade", request=Upgrade().to_json(), savepoint="")
WINDOW_RUN = "window__clicks__0123__2026-11-29T05:00:00"
START = int(datetime(2026, 11, 29, 3, tzinfo=UTC).timestamp() * 1000)
MINUTE = 60_000
LIST_RUN = "list__clicks__d1__2026-11-29T08:00:00"
OWN_RUN = "manual__2026-11-29T03:10:00"


@pytest.fixture
def placed(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    park_approvals(monkeypatch)
    streams = tmp_path / "specs"
    streams.mkdir()
    return replace(project, streams=streams)


def run_at(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    minutes: int,
    policy: str = "apply",
    *,
    run_type: str = SCHEDULED,
    run_id: str = WINDOW_RUN,
    more: str = "",
) -> Any:
    """The context of a run so many minutes after the window has begun. ``more``: other settings of the block."""
    upgrades = f"upgrades: {{window: 'Sun 03:00-05:00', policy: {policy}{more}}}\n"
    write_spec(project, upgrades)
    monkeypatch.setattr(window, "epoch_ms", lambda: START + minutes * MINUTE)
    found = context(FORM)
    found["dag_run"].run_type = run_type
    return {**found, "run_id": run_id}


def approve(project: Project, asked: Upgrade = Upgrade()) -> ApprovePlan:  # noqa: B008  it is frozen
    for run in (WINDOW_RUN, LIST_RUN, OWN_RUN):
        plan = replace(UPGRADE, id=id_of_run(run, RUN_AFTER), request=asked.to_json())
        keep_plan(StreamHome.of(project.home, "clicks"), plan)
    return ApprovePlan(task_id="approve", project=project, settings=ApprovalSettings.from_environment({}))


def test_the_policy_apply_approves_what_needs_nobody(placed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    found = approve(placed).execute(run_at(placed, monkeypatch, 10))
    assert found == "policy apply, window Sun 03:00-05:00 (Airflow)"
    approved = require_request(StreamHome.of(placed.home, "clicks"), id_of_run(WINDOW_RUN, RUN_AFTER))
    assert (approved.step, approved.by, approved.digest) == (OperationStage.APPROVED, found, PLAN.digest)


GAP = "rules: {gap_timeout: 5 minutes}\n"


def write_spec(project: Project, more: str) -> StreamSpec:
    (project.streams / "clicks.yaml").write_text(SHORT_SPEC.format(name="clicks") + more)
    return find_stream(project.streams, "clicks")


def approve_in_list(project: Project, minutes: int, waits: str = GAP) -> None:
    """A user has approved the other gap of the stream with others, until so many minutes after the window began.

    By now `waits` waits: the stream runs by it, its file says nothing of it.
    """
    home = StreamHome.of(project.home, "clicks")
    home.prepare()
    lineage = start_lineage(home, spec=new_record(home, write_spec(project, GAP)))
    approved = known(find_waiting(home, write_spec(project, "")))
    until = START + minutes * MINUTE
    APPROVED_UPGRADE.of(home).write(ListApproval(digest=approved.digest, by="olga", until=until))
    write_lineage_spec(home, lineage, new_record(home, write_spec(project, waits)))


def list_run(project: Project, monkeypatch: pytest.MonkeyPatch, minutes: int, policy: str = "apply") -> Any:
    return run_at(project, monkeypatch, minutes, policy, run_id=LIST_RUN)


@pytest.mark.parametrize("policy", ["approve", "apply", "refuse"])
def test_a_plan_that_was_approved_in_a_list_asks_nobody(
    placed: Project, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    approve_in_list(placed, 300)
    run = list_run(placed, monkeypatch, 200, policy)
    assert (approve(placed).execute(run) or "").startswith("olga, ")
    require_window(run, placed, "clicks")
    with pytest.raises(PersonNeeded) as late:
        require_window(list_run(placed, monkeypatch, 300, policy), placed, "clicks")
    assert "upgrade_all" in late.value.remedy


@pytest.mark.parametrize("waits", ["rules: {gap_timeout: 7 minutes}\n", ""], ids=["other", "nothing"])
@pytest.mark.parametrize("minutes", [10, 200])
def test_a_list_approves_nothing_that_waits_in_its_place(
    placed: Project, monkeypatch: pytest.MonkeyPatch, waits: str, minutes: int
) -> None:
    """The file is edited after the list was approved, or put back. An open window does not help the run of a list."""
    approve_in_list(placed, 300, waits)
    run = list_run(placed, monkeypatch, minutes, "approve")
    with pytest.raises(AirflowSkipException):
        approve(placed).execute(run)
    with pytest.raises(PersonNeeded):
        require_window(run, placed, "clicks")


def test_a_list_approves_no_other_run(placed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    approve_in_list(placed, 300)
    park(approve(placed, Upgrade(accept=("mapping.key",))), list_run(placed, monkeypatch, 200))
    park(approve(placed), run_at(placed, monkeypatch, 200, run_id=OWN_RUN))
    park(approve(placed), run_at(placed, monkeypatch, 10, "approve"))


@pytest.mark.parametrize(
    ("more", "asked", "is_approved"),
    [
        ("", Upgrade(accept=("mapping.key",)), False),
        ("", Upgrade(prove=True), False),
        (", prove: true", Upgrade(), False),
        (", prove: true, canary: 3", Upgrade(new_lineage=True, canary=4, prove=True), False),
        (", roll_back_if_failed: true", Upgrade(roll_back_if_failed=True, accept=("mapping.key",)), False),
        (", prove: true", Upgrade(prove=True), True),
        (", prove: true, canary: 3", Upgrade(new_lineage=True, canary=3, prove=True), True),
        (", roll_back_if_failed: true", Upgrade(roll_back_if_failed=True), True),
        (", replay: true", Upgrade(), False),
        (", replay: true", Upgrade(replay=True), True),
    ],
)
def test_the_policy_apply_approves_a_plan_with_the_options_of_the_spec_alone(
    placed: Project, monkeypatch: pytest.MonkeyPatch, more: str, asked: Upgrade, is_approved: bool
) -> None:
    task, run = approve(placed, asked), run_at(placed, monkeypatch, 10, more=more)
    if is_approved:
        assert task.execute(run) is not None
    else:
        park(task, run)


def test_a_run_of_a_users_own_dag_asks_a_user(placed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow gives it the same type as a run of the window."""
    task = approve(placed)
    park(task, run_at(placed, monkeypatch, 10, run_id=OWN_RUN))


def test_an_approval_waits_no_longer_than_its_window(placed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    task = approve(placed)
    park(task, run_at(placed, monkeypatch, 75, "approve"))
    assert task.response_timeout == timedelta(minutes=45)
    assert "no answer in 45 minutes" in (task.body or "")


@pytest.mark.parametrize(("minutes", "policy"), [(120, "apply"), (120, "approve"), (-1, "apply"), (10, "refuse")])
def test_nobody_is_asked_outside_the_window(
    placed: Project, monkeypatch: pytest.MonkeyPatch, minutes: int, policy: str
) -> None:
    with pytest.raises(AirflowSkipException):
        approve(placed).execute(run_at(placed, monkeypatch, minutes, policy))


@pytest.mark.parametrize("minutes", [-1, 10, 120])
def test_a_run_of_a_user_asks_a_user_at_any_time(
    placed: Project, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    task = approve(placed)
    park(task, run_at(placed, monkeypatch, minutes, run_type="manual"))
    assert task.response_timeout == timedelta(hours=4)


def test_what_was_approved_too_late_is_not_begun(placed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PersonNeeded) as late:
        require_window(run_at(placed, monkeypatch, 120), placed, "clicks")
    assert late.value.remedy.startswith("wait for the next window")
    require_window(run_at(placed, monkeypatch, 119), placed, "clicks")
    require_window(run_at(placed, monkeypatch, 500, run_type="manual"), placed, "clicks")


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_begun_upgrade_is_finished_after_the_window(
    placed: Project, monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    submitted: list[str] = []
    monkeypatch.setattr(OperateJob, "execute", lambda self, _: submitted.append(self.task_id))
    home = StreamHome.of(placed.home, "clicks")
    if has_begun:
        write_operation(home, new_operation(home, "upgrade", PLAN.digest, "policy apply", ("old", 7)))
    settings = SupervisionSettings.from_environment({})
    task = CarryOut(task_id="carry_out", project=placed, settings=settings, approval="approve")
    write_request(home, replace(UPGRADE, id=id_of_run(WINDOW_RUN, RUN_AFTER), step=OperationStage.APPROVED))
    run = run_at(placed, monkeypatch, 500)
    if has_begun:
        task.execute(run)
    else:
        with pytest.raises(PersonNeeded):
            task.execute(run)
    assert submitted == ["carry_out"] * has_begun


@pytest.mark.parametrize(("run_type", "count"), [(SCHEDULED, 1), ("manual", 0)])
def test_users_are_told_of_a_failure_that_nobody_looks_at(
    placed: Project, monkeypatch: pytest.MonkeyPatch, notified: Path, run_type: str, count: int
) -> None:
    run = run_at(placed, monkeypatch, 10, run_type=run_type)
    tell_of_scheduled_failure({**run, "task": approve(placed), "exception": PersonNeeded("no plan", "mend it")})
    assert [(each["kind"], "no plan" in each["text"]) for each in told(notified)] == [
        ("operation_failed", True)
    ] * count


def test_a_broken_spec_begins_nothing(placed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_at(placed, monkeypatch, 10)
    (placed.streams / "clicks.yaml").write_text("name: 7")
    with pytest.raises(PersonNeeded):
        approve(placed).execute(run)
