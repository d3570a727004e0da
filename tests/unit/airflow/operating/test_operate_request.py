"""What a form may ask for, and what its jobs are called with."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.control.records.operation_record import Ending
from sessionizer.errors import InvalidSpec
from sessionizer.state.commands.registry import COMMANDS
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.approval import Approved
from sessionizer_airflow.operating.jobs import CarryOut, MakePlan, MakeSavepoint, read_request
from sessionizer_airflow.operating.request import SAVEPOINT, Request, form_fields, purposes, request_id
from sessionizer_airflow.operating.results import operation_of
from sessionizer_airflow.supervision.policy import SupervisionSettings
from support.verbs.asked_restore import RESTORE, RUN, context, operation

if TYPE_CHECKING:
    from sessionizer_airflow.project import Project


def test_a_request_is_the_same_for_every_try_of_its_run() -> None:
    assert Request.parse_form(RUN, RESTORE) == Request.parse_form(RUN, RESTORE)
    assert Request.parse_form(RUN, RESTORE).id != Request.parse_form(f"{RUN}y", RESTORE).id


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"savepoint": None}, "savepoint"),
        ({"time": "2026-11-23T10:00:00Z"}, "time"),
        ({"savepoint": "--home"}, "savepoint"),
        ({"stream": "../clicks"}, "stream"),
        ({"verb": "savepoint"}, "savepoint"),
        ({"verb": "savepoint", "savepoint": "", "time": "2026-11-23T10:00:00Z"}, "time"),
        ({"verb": "rescale"}, "savepoint"),
        ({"key_groups": 8}, "key_groups"),
        ({"verb": "rollback", "savepoint": None, "start_at": "earliest"}, "start_at"),
        ({"verb": "switch", "savepoint": None}, "start_at"),
        ({"verb": "switch", "savepoint": None, "start_at": "latest", "backfill": True}, "backfill"),
        ({"verb": "seed", "savepoint": None}, "history"),
        ({"verb": "rollback", "savepoint": None, "roll_back_if_failed": True}, "roll_back_if_failed"),
        ({"verb": "rollback", "savepoint": None, "canary": 3}, "canary"),
        ({"verb": "seed", "savepoint": None, "history": "old/clicks"}, "history"),
        ({"verb": "seed", "savepoint": None, "history": "jdbc:postgresql://db/x"}, "connection"),
        ({"verb": "seed", "savepoint": None, "history": "jdbc:postgresql://db/x", "connection": "shop"}, "table"),
        ({"verb": "seed", "savepoint": None, "history": "jdbc:postgresql://db/x?password=tell"}, "history"),
        ({"verb": "seed", "savepoint": None, "history": "/lake", "connection": "shop"}, "connection"),
        ({"connection": "shop"}, "connection"),
        ({"folder": "vault"}, "folder"),
        ({"folder": "s3://ann:tell@lake/sessionizer"}, "folder"),
        ({"verb": "rollback", "savepoint": None, "folder": "/vault"}, "folder"),
        ({"verb": "savepoint", "savepoint": None, "folder": "/vault"}, "folder"),
        ({"savepoint": None, "time": "yesterday"}, "time"),
        ({"verb": "seed", "savepoint": None, "history": "checkpoint:/old"}, "history"),
        ({"verb": "seed", "savepoint": None, "history": "/lake", "until": "now"}, "until"),
    ],
)
def test_a_form_that_contradicts_itself_starts_nothing(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        Request.parse_form(RUN, {**RESTORE, **changes})
    assert refused.value.field == field
    with pytest.raises(PersonNeeded) as told:
        read_request(context({**RESTORE, **changes}), purposes())
    assert told.value.remedy.startswith("run this DAG again")
    assert "tell" not in str(refused.value), "a password is not shown"


def test_what_may_be_left_out_may_be_empty() -> None:
    form = {"verb": "savepoint", "stream": "clicks", "savepoint": "", "time": None, "why": ""}
    assert Request.parse_form(RUN, form) == Request(
        id=request_id(RUN), operation=SAVEPOINT, stream="clicks", savepoint=None, options=(), why=""
    )


def test_a_savepoint_that_is_asked_for_has_one_id_in_every_try(project: Project) -> None:
    task = MakeSavepoint(task_id="t", project=project)
    form = {"verb": "savepoint", "stream": "clicks", "why": "before the weekend"}
    arguments = task.arguments(Request.parse_form(RUN, form), context(form))
    assert arguments[:3] == ("savepoint", "create", "clicks")
    assert arguments[3:6] == ("--id", f"20261123T100000-{request_id(RUN)[:6]}", "--why")
    assert arguments[6].startswith("before the weekend")
    assert arguments[6].endswith("olga (Airflow)")


@pytest.mark.parametrize(
    ("changes", "to"),
    [({}, ("s1",)), ({"savepoint": None, "time": "2026-11-23T10:00:00Z"}, ("--time", "2026-11-23T10:00:00Z"))],
)
def test_a_plan_is_kept_for_its_request(changes: dict[str, Any], to: tuple[str, ...], project: Project) -> None:
    form = {**RESTORE, **changes}
    arguments = MakePlan(task_id="t", project=project).arguments(Request.parse_form(RUN, form), context(form))
    assert arguments == ("restore", "clicks", *to, "--keep-plan", request_id(RUN), "--home", str(project.home))


def test_what_was_approved_is_carried_out_and_nothing_fresher(project: Project) -> None:
    """Even where a time was asked for: by then it may mean another savepoint."""
    approved = {"savepoint": "s1", "options": "", "digest": "0123456789abcdef", "by": "alice (Airflow)"}
    pulled = SimpleNamespace(xcom_pull=lambda task_ids: approved if task_ids == "approve" else None)
    settings = SupervisionSettings.from_environment({})
    task = CarryOut(task_id="t", project=project, settings=settings, approval="approve")
    form = {**RESTORE, "savepoint": None, "time": "2026-11-23T10:00:00Z"}
    assert task.arguments(Request.parse_form(RUN, form), context(form, ti=pulled)) == (
        "restore", "clicks", "s1", "--approve", "0123456789abcdef", "--by", "alice (Airflow)",
        "--home", str(project.home),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ({"verb": "rollback"}, ()),
        (
            {"verb": "restore", "time": "2026-11-23T10:00:00Z", "exclude": "a*.json\n\nb.json "},
            ("--time", "2026-11-23T10:00:00Z", "--exclude", "a*.json", "--exclude", "b.json"),
        ),
        (
            {"verb": "restore", "savepoint": None, "time": "2026-11-23T10:00:00Z", "folder": "/vault"},
            ("--time", "2026-11-23T10:00:00Z", "--in", "/vault"),
        ),
        (
            {"verb": "restore", "time": "2026-11-23T10:00:00Z", "folder": "hdfs://n/a b"},
            ("--time", "2026-11-23T10:00:00Z", "--in", "hdfs://n/a b"),
        ),
        ({"verb": "rescale", "key_groups": 8, "partitions": None}, ("--key-groups", "8")),
        ({"verb": "apply", "new_lineage": True, "canary": 0}, ("--new-lineage", "--canary", "0")),
        ({"verb": "switch", "accept_loss": True}, ("--accept-loss",)),
        (
            {"verb": "switch", "start_at": "latest", "leave_unread": True},
            ("--start-at", "latest", "--leave-unread"),
        ),
        (
            {"verb": "seed", "history": "s3a://lake/a b", "live_from": "now", "backfill": True, "start_over": False},
            ("--history", "s3a://lake/a b", "--live-from", "now", "--backfill"),
        ),
    ],
)
def test_the_fields_of_a_verb_are_the_options_of_its_command(
    form: dict[str, Any], options: tuple[str, ...], project: Project
) -> None:
    """Planned and carried out alike; a command that goes by the stream's file is told where that is."""
    asked = {**dict.fromkeys(form_fields()), "stream": "clicks", **form}
    request = Request.parse_form(RUN, asked)
    planned = MakePlan(task_id="t", project=project).arguments(request, context(asked))
    folders = project.folders.argv() if COMMANDS[request.operation].reads_spec else ("--home", str(project.home))
    assert planned == (form["verb"], "clicks", *options, "--keep-plan", request_id(RUN), *folders)
    approved = {"savepoint": "", "options": shlex.join(options), "digest": "0123456789abcdef", "by": "alice"}
    pulled = SimpleNamespace(xcom_pull=lambda task_ids: approved)
    settings = SupervisionSettings.from_environment({})
    task = CarryOut(task_id="t", project=project, settings=settings, approval="approve")
    carried_out = task.arguments(request, context(asked, ti=pulled))
    assert carried_out == (
        form["verb"], "clicks", *options, "--approve", "0123456789abcdef", "--by", "alice", *folders,
    )  # fmt: skip


def test_the_days_are_those_of_the_restore_that_was_approved() -> None:
    approved = Approved(savepoint="s1", options="", digest="a", planned_at=1, by="alice")
    records = [
        operation("1", "a", Ending.DONE, 1),
        operation("2", "a", Ending.DONE, 2),
        operation("3", "a", None, 3),
        operation("4", "b", Ending.DONE, 4),
    ]
    found = operation_of(records, approved)
    assert found is not None
    assert found.id == "2"
    assert operation_of([], approved) is None


def test_what_was_over_before_the_plan_was_made_is_not_what_was_approved() -> None:
    """As of a stream that was rolled back: the same is planned again, and has the same digest."""
    approved = Approved(savepoint="", options="", digest="a", planned_at=5, by="alice")
    before, after = operation("1", "a", Ending.DONE, 4), operation("2", "a", Ending.DONE, 6)
    assert operation_of([before], approved) is None
    assert operation_of([before, after], approved) == after
