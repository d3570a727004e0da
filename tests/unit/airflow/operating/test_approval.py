"""Approvals: the shown plan, the answer that is handed on, failures, and plans of many erasures."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowSkipException
from deltalake import write_deltalake

from sessionizer.control.records.operation_record import (
    IN_AIRFLOW,
    OperationRecord,
    OperationStage,
    keep_plan,
    require_request,
    write_request,
)
from sessionizer.control.records.supervision_records import APPROVED_UPGRADE, DesiredState, write_desired
from sessionizer.deployment.differences import Difference, describe_differences, describe_hindrance
from sessionizer.errors import InvalidSpec, PlanChanged, SessionizerError, StreamMovedOn
from sessionizer.home.clock import DAY, HOUR
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage
from sessionizer.lineage.kept_spec import LineageSpec, write_lineage_spec
from sessionizer.stream_spec.effect import Verdict
from sessionizer_airflow.alerting import AlertKind
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.approval import (
    SHOWN_PLAN,
    ApprovalSettings,
    ApprovePlan,
    ApproveUpgrades,
    body_of,
    name_user,
    subject_of,
)
from sessionizer_airflow.operating.erasures import ApproveErasures, ErasureSettings, forms_of_erasures
from sessionizer_airflow.operating.request import Request
from sessionizer_airflow.operating.results import (
    PLAN_AGAIN,
    RUN_AGAIN,
    Left,
    failure_alert,
    how_to_mend,
    read_remains,
    tell_of_failure,
)
from sessionizer_airflow.project import Project
from support.fixtures.reviewed import Reviewed
from support.places import opened
from support.processes.file_notifier import told
from support.verbs.asked_restore import OPERATION, PLAN, RESTORE, answer_of, context, operation, park, park_approvals
from support.verbs.begun_restore import leave_waiting, write_operation

SETTINGS = ApprovalSettings.from_environment({})
ALICE = {"id": "7", "name": "alice"}


def test_the_body_shows_the_plan_line_by_line_and_nothing_in_it_is_markup(reviewed: Reviewed) -> None:
    reviewed(subject_of(PLAN))
    assert subject_of(replace(PLAN, verb="rescale", savepoint="")) == "Rescale clicks?"
    body = body_of(PLAN, "a bad deployment\n# **Approve** me", 4 * HOUR)
    reviewed(body)


def waiting(project: Project, monkeypatch: pytest.MonkeyPatch) -> ApprovePlan:
    park_approvals(monkeypatch)
    return ApprovePlan(task_id="approve", project=project, settings=SETTINGS)


def test_the_plan_of_the_run_is_shown(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_plan(StreamHome.of(project.home, "clicks"), PLAN)
    task = waiting(project, monkeypatch)
    park(task, context(RESTORE))
    assert (task.subject, task.body) == (subject_of(PLAN), body_of(PLAN, "", SETTINGS.patience_ms, "olga"))


def test_the_page_gets_the_plan_with_its_differences_apart(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a plan that is refused, because a user has not accepted a difference that Spark found."""
    gap = Difference("rules.gap_timeout", "changed", 1, 2, Verdict.IN_PLACE)
    key = Difference("mapping.key", "changed", "a", "b", Verdict.PARTIAL, reason="sessions split", remedy="migrate")
    hindrance = describe_hindrance([key, gap], ()) or ""
    lines = [PLAN.text, *(f"  {line}" for line in describe_differences([key, gap])), f"  {hindrance}"]
    refused = replace(PLAN, possible=False, text="\n".join(lines), differences=(key.to_json(), gap.to_json()))
    keep_plan(StreamHome.of(project.home, "clicks"), refused)
    asked = context(RESTORE)
    with pytest.raises(PersonNeeded):
        waiting(project, monkeypatch).execute(asked)
    told = asked["ti"].kept[SHOWN_PLAN]
    assert (told["digest"], told["possible"], told["accepted"]) == (PLAN.digest, False, [])
    assert [told["title"], *told["lines"]] == [line.strip() for line in PLAN.text.splitlines()]
    assert [(each["name"], each["must_be_accepted"]) for each in told["differences"]] == [
        ("mapping.key", True),
        ("rules.gap_timeout", False),
    ]


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, verb="rescale", savepoint="")], ids=["restore", "rescale"])
def test_nobody_is_asked_about_what_cannot_be_done_or_is_there_already(
    project: Project, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed, plan: OperationRecord
) -> None:
    keep_plan(StreamHome.of(project.home, "clicks"), replace(plan, possible=False))
    with pytest.raises(PersonNeeded) as told:
        waiting(project, monkeypatch).execute(context(RESTORE))
    reviewed(told.value.remedy)
    assert ("savepoint" in told.value.remedy) == bool(plan.savepoint)


def test_a_plan_that_is_gone_is_not_made_up(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PersonNeeded, match="it is gone"):
        waiting(project, monkeypatch).execute(context(RESTORE))


def answered(project: Project, option: str, user: object) -> str | None:
    """What the task returns once Airflow has an answer."""
    task = ApprovePlan(task_id="approve", project=project, settings=SETTINGS)
    return task.execute_complete(context(RESTORE), answer_of(user, option))


def test_an_approval_is_recorded_with_what_was_shown_and_who_approved(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = StreamHome.of(project.home, "clicks")
    keep_plan(home, PLAN)
    by = answered(project, "Approve", ALICE) or ""
    assert (by.startswith("alice"), "olga" in by, by.endswith(IN_AIRFLOW)) == (True, True, True)
    approved = require_request(home, PLAN.id)
    assert approved == replace(
        PLAN, step=OperationStage.APPROVED, by=by, begun_at=approved.begun_at, step_at=approved.step_at
    )
    park(waiting(project, monkeypatch), context(RESTORE))
    assert require_request(home, PLAN.id).step is OperationStage.PLANNED, "a cleared task asks again"


def test_a_plan_that_is_made_after_one_was_shown_does_not_replace_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan job that was taken for lost goes on, before and after the answer."""
    home = StreamHome.of(project.home, "clicks")
    keep_plan(home, PLAN)
    park(waiting(project, monkeypatch), context(RESTORE))
    monkeypatch.undo()
    late = replace(PLAN, digest="fedcba9876543210", text="another plan")
    assert keep_plan(home, late) == PLAN
    write_request(home, replace(PLAN, step=OperationStage.REQUESTED, digest="", text=""))
    answered(project, "Approve", ALICE)
    approved = require_request(home, PLAN.id)
    assert (approved.step, approved.digest, approved.text) == (OperationStage.APPROVED, PLAN.digest, PLAN.text)
    assert keep_plan(home, late) == PLAN
    assert require_request(home, PLAN.id) == PLAN, "the answer is lost, so nothing is carried out"


LISTED = [
    {
        "stream": name,
        "wave": wave,
        "digest": f"d{wave}",
        "fits": name != "orders",
        "counts": "1 partial",
        "lines": lines,
    }
    for wave, (name, lines) in enumerate(
        [("visits", ["in place     gap: 5 → 6 (changed)"]), ("clicks", []), ("orders", [])]
    )
]


def test_one_answer_approves_each_stream_of_a_list(
    project: Project, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed
) -> None:
    task = ApproveUpgrades(task_id="approve", project=project, settings=SETTINGS, listed=LISTED)
    waiting(project, monkeypatch)
    park(task, context({}))
    reviewed(f"{task.subject}\n{task.body}")
    monkeypatch.undo()
    for name in ("visits", "clicks", "orders"):
        StreamHome.of(project.home, name).prepare()
    task.execute_complete(context({}), answer_of(ALICE))
    found = {
        name: APPROVED_UPGRADE.of(StreamHome.of(project.home, name)).read() for name in ("visits", "clicks", "orders")
    }
    assert found["orders"] is None
    waiting(project, monkeypatch)
    for tries, left in ((1, [*found.values()]), (2, [None] * 3)):
        given = context({})
        given["ti"].try_number = tries
        park(task, given)
        asked_again = [APPROVED_UPGRADE.of(StreamHome.of(project.home, name)).read() for name in found]
        assert asked_again == left, "a cleared task asks again. The list of another run changes nothing"
    assert [(each.digest, each.by) for each in found.values() if each] == [("d0", "alice"), ("d1", "alice")]


def test_no_list_is_asked_about_in_which_nothing_can_be_approved(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(project, monkeypatch)
    task = ApproveUpgrades(task_id="approve", project=project, settings=SETTINGS, listed=LISTED[2:])
    with pytest.raises(AirflowSkipException):
        task.execute(context({}))


@pytest.mark.parametrize("user", [ALICE, None])
def test_a_rejection_approves_nothing(user: object, project: Project) -> None:
    home = StreamHome.of(project.home, "clicks")
    keep_plan(home, PLAN)
    assert answered(project, "Reject", user) is None
    assert require_request(home, PLAN.id) == PLAN


@pytest.mark.parametrize(
    ("user", "name"),
    [(None, "no user: the time was up"), (ALICE, "alice"), (SimpleNamespace(name="bob"), "bob")],
)
def test_who_answered_is_named(user: object, name: str) -> None:
    assert name_user(user) == name


def test_people_are_told_that_they_are_waited_for(
    project: Project, notified: Path, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed
) -> None:
    link = "http://airflow/dags/sessionizer.operate/runs/r/tasks/approve/required_actions"
    task = ApprovePlan(task_id="approve", project=project, settings=SETTINGS)
    task.subject = subject_of(PLAN)
    for known in (link, None):
        monkeypatch.setattr(task, "generate_link_to_ui_from_context", lambda context, known=known: known)
        task.notifiers[0].notify(context(RESTORE, task=task))
        text = notified.read_text()
        reviewed(text)
        assert (known or "Required Actions") in text


def test_an_installation_names_who_may_answer_and_for_how_long(project: Project) -> None:
    given = {"SESSIONIZER_APPROVERS": "olga, tom,", "SESSIONIZER_APPROVAL_PATIENCE": "30 minutes"}
    task = ApprovePlan(task_id="t", project=project, settings=ApprovalSettings.from_environment(given))
    assert task.assigned_users == [{"id": "olga", "name": "olga"}, {"id": "tom", "name": "tom"}]
    assert task.response_timeout == timedelta(minutes=30)
    assert ApprovePlan(task_id="t", project=project, settings=SETTINGS).assigned_users is None


@pytest.mark.parametrize(
    ("left", "standing", "go_on", "may_give_up"),
    [
        (Left(), "the stream is left as it was", "then run this DAG again", False),
        (
            Left(operation("1", "a", None, 1), in_maintenance=True),
            "it had reached approved, and the stream is down until it is finished",
            "then clear the task carry_out of this run",
            True,
        ),
        (
            Left(replace(operation("1", "a", None, 1), step=OperationStage.TAKEN_BACK), in_maintenance=True),
            "it had reached taken_back, and the stream is down until it is finished",
            "then clear the task carry_out of this run",
            False,
        ),
        (
            Left(in_maintenance=True),
            "it had not begun, and the stream stays stopped until it is finished",
            "then clear the task carry_out of this run",
            True,
        ),
        (
            Left(in_maintenance=True, other=replace(operation("1", "a", None, 1), verb="rescale")),
            "it had not begun, and the stream is down until its rescale is finished",
            "then run this DAG again",
            False,
        ),
    ],
)
def test_a_failure_says_whether_the_stream_is_down(left: Left, standing: str, go_on: str, *, may_give_up: bool) -> None:
    request = Request.parse_form(RESTORE)
    known = failure_alert(request, PersonNeeded("the plan has changed", "look again"), left)
    assert (known.kind, known.reason) == (AlertKind.OPERATION_FAILED, f"restore, {standing}: the plan has changed")
    assert known.what_to_do == "look again"
    unknown = failure_alert(request, None, left)
    assert unknown.reason == f"restore, {standing}: its worker was lost"
    assert go_on in unknown.what_to_do
    assert ("sessionizer abandon clicks" in unknown.what_to_do) is may_give_up


@pytest.mark.parametrize("kind", [PlanChanged, StreamMovedOn])
def test_a_plan_that_does_not_hold_is_made_anew_before_it_is_approved(kind: type[SessionizerError]) -> None:
    """The remedy of the command line would approve first."""
    assert how_to_mend(kind.remedy, RUN_AGAIN) == PLAN_AGAIN
    assert how_to_mend("mend", RUN_AGAIN).endswith(RUN_AGAIN)
    assert how_to_mend(kind.remedy, "clear").endswith("clear")


@pytest.mark.parametrize(
    ("digest", "verb", "is_kept", "is_other"),
    [
        (PLAN.digest, "restore", True, False),
        ("f" * 16, "restore", True, True),
        ("f" * 16, "rescale", False, True),
        ("f" * 16, "restore", False, False),
    ],
    ids=["its own", "another plan of the verb", "another verb, before the plan", "the same verb, before the plan"],
)
def test_the_operation_of_another_command_is_not_taken_for_that_of_the_run(
    tmp_path: Path, digest: str, verb: str, is_kept: bool, is_other: bool
) -> None:
    """A command was typed while the plan waited for its approval."""
    home = StreamHome.of(tmp_path, "clicks")
    if is_kept:
        write_request(home, PLAN)
    pending = replace(operation("1", digest, None, 1), verb=verb)
    write_operation(home, pending)
    left = read_remains(home, Request.parse_form(RESTORE), OPERATION)
    assert (left.pending, left.other) == ((None, pending) if is_other else (pending, None))


@pytest.mark.parametrize(("digest", "is_other"), [(PLAN.digest, False), ("f" * 16, True)])
def test_the_maintenance_of_another_command_is_not_taken_for_that_of_the_run(
    tmp_path: Path, digest: str, is_other: bool
) -> None:
    """The run was given up while it waited for the driver's end, and the next command waits for it, too."""
    home = StreamHome.of(tmp_path, "clicks")
    write_request(home, PLAN)
    waiting = leave_waiting(home, operation("1", digest, None, 1))
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why="restore")
    left = read_remains(home, Request.parse_form(RESTORE), OPERATION)
    assert (left.in_maintenance, left.other) == ((False, waiting) if is_other else (True, None))


def test_people_are_told_of_a_worker_that_was_lost(project: Project, notified: Path, reviewed: Reviewed) -> None:
    task = SimpleNamespace(project=project)
    write_operation(StreamHome.of(project.home, "clicks"), operation("1", "a", None, 1))
    tell_of_failure(context(RESTORE, task=task))
    (told_of,) = told(notified)
    assert told_of["kind"] == "operation_failed"
    reviewed(told_of["text"])


def test_telling_of_a_failure_is_no_second_failure(project: Project, notified: Path) -> None:
    tell_of_failure(context({**RESTORE, "stream": "../x"}, task=SimpleNamespace(project=project)))
    assert told(notified) == []


APPROVAL = ApprovalSettings.from_environment({})
NOW = datetime(2026, 11, 29, tzinfo=UTC)
LINEAGE = "20261123T080000-abc123"
DONE = pa.map_(pa.string(), pa.timestamp("us", "UTC"))


def settings(place: Path) -> ErasureSettings:
    found = ErasureSettings.from_environment({"SESSIONIZER_ERASE_REQUESTS": str(place)})
    assert found is not None
    return found


def forms(project: Project, table: dict[str, Any]) -> list[dict[str, Any]]:
    place = project.home / "requests"
    write_deltalake(str(place), pa.table(table), mode="overwrite", schema_mode="overwrite")
    return forms_of_erasures(project, ["clicks", "never_ran", "visits"], settings(place), lambda _: None)


@pytest.fixture
def streams(project: Project) -> Project:
    for name in ("clicks", "visits"):
        home = StreamHome.of(project.home, name)
        home.prepare()
        activate_lineage(home, LINEAGE, None)
    return project


def test_a_stream_is_due_as_long_as_it_has_not_erased_someone(streams: Project) -> None:
    done = pa.array([[("clicks", NOW)], [], None], DONE)
    table = {"key": ["a", "b", ""], "stream": pa.array([None, "visits", None], pa.string()), "done": done}
    assert [(each["stream"], each["column"]) for each in forms(streams, table)] == [("visits", "key")]
    nobody = pa.array([[], [], []], DONE)
    found = forms(streams, {**table, "done": nobody})
    assert [each["stream"] for each in found] == ["clicks", "visits"]
    assert {each["keys"] for each in found} == {str(streams.home / "requests")}


def test_clients_follow_when_the_keys_are_done(streams: Project) -> None:
    done = pa.array([[("clicks", NOW)], [("visits", NOW)]], DONE)
    table = {"key": pa.array(["a", None]), "client": pa.array([None, "c"]), "done": done}
    assert [(each["stream"], each["column"]) for each in forms(streams, table)] == [
        ("clicks", "client"),
        ("visits", "key"),
    ]


def test_a_column_of_the_payload_is_asked_of_the_streams_that_have_it(streams: Project) -> None:
    spec = LineageSpec({"mapping": {"payload": {"email": "email", "stream": "stream"}}})
    visits = streams.home_of("visits")
    opened(visits.lineage(LINEAGE).records).mkdir(parents=True)
    write_lineage_spec(visits, LINEAGE, spec)
    table = {"email": ["a@b"], "page": ["/"], "stream": pa.array([None], pa.string()), "done": pa.array([None], DONE)}
    assert [(each["stream"], each["column"]) for each in forms(streams, table)] == [("visits", "email")]
    assert forms(streams, {**table, "done": pa.array([[("visits", NOW)]], DONE)}) == []
    beside_a_key = forms(streams, {**table, "key": ["a"]})
    assert {each["column"] for each in beside_a_key} == {"key"}
    write_lineage_spec(visits, LINEAGE, LineageSpec({"mapping": {"payload": {"email": "email", "page": "page"}}}))
    with pytest.raises(PersonNeeded):
        forms(streams, table)  # by which of the two is not said


@pytest.mark.parametrize(
    "table",
    [
        {"key": ["a"]},
        {"person": ["a"], "done": pa.array([None], DONE)},
        {"key": ["a"], "done": pa.array([None], DONE), "requested_at": [NOW.date()]},
        {"key": ["a"], "done": [True]},
        {"key": ["a"], "done": pa.array([None], DONE), "stream": [["clicks"]]},
    ],
)
def test_a_table_of_another_shape_is_refused(streams: Project, table: dict[str, Any]) -> None:
    with pytest.raises(PersonNeeded):
        forms(streams, table)


def test_a_place_without_a_table_is_refused(streams: Project) -> None:
    with pytest.raises(PersonNeeded):
        forms_of_erasures(streams, ["clicks"], settings(streams.home / "nothing"), lambda _: None)


def test_the_settings_name_an_absolute_place() -> None:
    assert ErasureSettings.from_environment({}) is None
    with pytest.raises(InvalidSpec) as refused:
        ErasureSettings.from_environment({"SESSIONIZER_ERASE_REQUESTS": "requests"})
    assert refused.value.field == "SESSIONIZER_ERASE_REQUESTS"
    assert settings(Path("/requests")).patience(APPROVAL).patience_ms == DAY - HOUR


def test_one_answer_approves_each_plan_that_can_be_carried_out(
    streams: Project, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed
) -> None:
    park_approvals(monkeypatch)
    asked = [{"stream": name} for name in ("clicks", "failed", "nobody", "visits")]
    for name, possible in (("clicks", True), ("nobody", False), ("visits", True)):
        text = f"stream {name} erases 2 keys\n  sessions: 3 rows are deleted"
        keep_plan(StreamHome.of(streams.home, name), replace(PLAN, stream=name, possible=possible, text=text))
    task = ApproveErasures(task_id="approve", project=streams, settings=APPROVAL, forms=asked)
    shown = context({})
    shown["ti"].xcom_pull = lambda task_ids, key: shown["ti"].kept[key]
    park(task, shown)
    late = replace(PLAN, stream="failed", digest="fedcba9876543210")
    keep_plan(StreamHome.of(streams.home, "failed"), late)
    reviewed(f"{task.subject}\n{task.body}")
    monkeypatch.undo()
    answer = answer_of({"id": "7", "name": "alice"})
    assert task.execute_complete(shown, answer) == [{"stream": "clicks"}, {"stream": "visits"}]
    for name in ("clicks", "visits"):
        approved = require_request(StreamHome.of(streams.home, name), PLAN.id)
        assert (approved.step, approved.by) == (OperationStage.APPROVED, f"alice{IN_AIRFLOW}")

    refused = ApproveErasures(task_id="approve", project=streams, settings=APPROVAL, forms=asked[2:3])
    with pytest.raises(AirflowSkipException):
        refused.execute(context({}))
