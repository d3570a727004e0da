"""What a form may ask for, and what its jobs are called with."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import typer
from airflow.sdk.exceptions import ParamValidationError
from typer.testing import CliRunner

from sessionizer.cli.state_commands.course import Shared, command_line
from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, OperationStage, require_request, write_request
from sessionizer.errors import InvalidSpec
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.state.commands.command import Command, option
from sessionizer.state.commands.moves import Rescale, Switch
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.seeds import Seed
from sessionizer.state.commands.upgrades import Apply
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.jobs import CarryOut, MakePlan, MakeSavepoint, ReadForm, read_request
from sessionizer_airflow.operating.request import SAVEPOINT, Request, form_fields, form_of, list_choices, purposes
from sessionizer_airflow.operating.results import RUN_AGAIN, operation_of
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionSettings
from support.places import known
from support.verbs.asked_restore import OPERATION, PLAN, RESTORE, context, operation
from support.verbs.begun_restore import write_operation


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
        ({"start_at": "latest"}, "start_at"),
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
        Request.parse_form({**RESTORE, **changes})
    assert refused.value.field == field
    with pytest.raises(PersonNeeded) as told:
        read_request(context({**RESTORE, **changes}), purposes())
    assert told.value.remedy.startswith("run this DAG again")
    assert "tell" not in str(refused.value), "a password is not shown"


def test_the_form_offers_the_savepoints_of_the_streams(project: Project) -> None:
    home = project.home_of("clicks")
    home.prepare()
    for number, kind in enumerate([MarkKind.SAVEPOINT, MarkKind.START, MarkKind.SAVEPOINT]):
        saved = f"s{number}" if kind is MarkKind.SAVEPOINT else None
        add_mark(home, Mark(kind=kind, at=number, what="native", savepoint=saved, batch_id=number))
    choices = list_choices([home, project.home_of("visits")])
    assert [each.split()[:2] for each in choices] == [["s2", "clicks,"], ["s0", "clicks,"]]
    field = form_of(["clicks"], savepoints=choices)["savepoint"]
    assert field.schema["examples"] == choices
    for filled in (choices[1], "s0"):
        assert Request.parse_form({**RESTORE, "savepoint": field.resolve(filled)}).command == Restore(savepoint="s0")
    with pytest.raises(ParamValidationError):
        field.resolve("../s0")


def test_what_may_be_left_out_may_be_empty() -> None:
    form = {"verb": "savepoint", "stream": "clicks", "savepoint": "", "time": None, "why": ""}
    assert Request.parse_form(form) == Request(operation=SAVEPOINT, stream="clicks")


def test_a_savepoint_that_is_asked_for_has_one_id_in_every_try(project: Project) -> None:
    task = MakeSavepoint(task_id="t", project=project)
    form = {"verb": "savepoint", "stream": "clicks", "why": "before the weekend"}
    arguments = task.arguments(Request.parse_form(form), context(form))
    assert arguments[:3] == ("savepoint", "create", "clicks")
    assert arguments[3:6] == ("--id", OPERATION, "--why")
    assert arguments[6].startswith("before the weekend")
    assert arguments[6].endswith("olga (Airflow)")


@pytest.mark.parametrize(
    ("form", "command"),
    [
        ({"verb": "rollback"}, Rollback()),
        (
            {"verb": "restore", "time": "2026-11-23T10:00:00Z", "exclude": "a*.json\n\nb.json "},
            Restore(time="2026-11-23T10:00:00Z", exclude=("a*.json", "b.json")),
        ),
        (
            {"verb": "restore", "savepoint": "s1", "folder": "hdfs://n/a b"},
            Restore(savepoint="s1", folder="hdfs://n/a b"),
        ),
        (
            {"verb": "restore", "savepoint": "s1", "with_file": True, "key_groups": 8, "partitions": 4},
            Restore(savepoint="s1", with_file=True, key_groups=8, partitions=4),
        ),
        ({"verb": "rescale", "key_groups": 8, "partitions": None}, Rescale(key_groups=8)),
        ({"verb": "apply", "new_lineage": True, "canary": 0}, Apply(new_lineage=True, canary=0)),
        ({"verb": "switch", "accept_loss": True}, Switch(accept_loss=True)),
        ({"verb": "switch", "start_at": "latest", "leave_unread": True}, Switch(start_at="latest", leave_unread=True)),
        (
            {"verb": "seed", "history": "s3a://lake/a b", "live_from": "now", "backfill": True, "start_over": False},
            Seed(history="s3a://lake/a b", live_from="now", backfill=True),
        ),
    ],
)
def test_the_fields_of_a_verb_are_a_command_in_the_record_of_the_run(
    form: dict[str, Any], command: Command, project: Project
) -> None:
    """Every try of the plan and of the approved command has the same id, and the first request stays."""
    asked = {**dict.fromkeys(form_fields()), "stream": "clicks", **form}
    task = MakePlan(task_id="t", project=project)
    arguments = task.arguments(Request.parse_form(asked), context(asked))
    assert arguments == ("carry-out", "clicks", OPERATION, "--plan", *project.argv())
    home = project.home_of("clicks")
    record = require_request(home, OPERATION)
    assert (record.verb, record.step) == (form["verb"], OperationStage.REQUESTED)
    assert type(command).from_json(record.request) == command
    write_request(home, planned := replace(record, step=OperationStage.PLANNED))
    settings = SupervisionSettings.from_environment({})
    for each in (task, CarryOut(task_id="t", project=project, settings=settings, approval="approve")):
        only_plan = ("--plan",) if each is task else ()
        again = each.arguments(Request.parse_form(asked), context(asked))
        assert again == ("carry-out", "clicks", OPERATION, *only_plan, *project.argv())
        assert require_request(home, OPERATION) == planned


def test_the_days_are_those_of_the_restore_that_was_approved() -> None:
    approved = replace(PLAN, digest="a", planned_at=1)
    records = [
        operation("1", "a", Ending.DONE, 1),
        operation("2", "a", Ending.DONE, 2),
        operation("3", "a", None, 3),
        operation("4", "b", Ending.DONE, 4),
    ]
    found = known(operation_of(records, approved))
    assert found.id == "2"
    assert operation_of([], approved) is None


def test_what_was_over_before_the_plan_was_made_is_not_what_was_approved() -> None:
    """As of a stream that was rolled back: the same is planned again, and has the same digest."""
    approved = replace(PLAN, digest="a", planned_at=5)
    before, after = operation("1", "a", Ending.DONE, 4), operation("2", "a", Ending.DONE, 6)
    assert operation_of([before], approved) is None
    assert operation_of([before, after], approved) == after


FORMS: dict[str, dict[str, Any]] = {
    "restore": {"verb": "restore", "savepoint": "monday"},
    "rollback": {"verb": "rollback"},
    "rescale": {"verb": "rescale", "key_groups": 8},
    "switch": {"verb": "switch", "start_at": "latest"},
    "apply": {"verb": "apply"},
    "seed": {"verb": "seed", "history": "source"},
}


@pytest.fixture
def stream(project: Project) -> StreamHome:
    home = project.home_of("clicks")
    home.prepare()
    home.prepare_data()
    return home


def asked(project: Project, verb: str, **more: object) -> object:
    task = ReadForm(task_id="read_form", project=project, first_task=dict.fromkeys(purposes(), "plan"))
    return task.choose_branch(context({**FORMS[verb], "stream": "clicks", **more}))


@pytest.mark.parametrize("verb", [verb for verb in FORMS if verb != "seed"])
def test_a_stream_that_never_ran(project: Project, stream: StreamHome, verb: str) -> None:
    with pytest.raises(PersonNeeded, match="it never ran"):
        asked(project, verb)
    start_lineage(stream)
    assert asked(project, verb) == "plan"


def test_a_seed_of_a_stream_that_has_begun(project: Project, stream: StreamHome) -> None:
    assert asked(project, "seed") == "plan"
    start_lineage(stream)
    with pytest.raises(PersonNeeded, match="has already begun") as refused:
        asked(project, "seed")
    assert refused.value.remedy.endswith(RUN_AGAIN), "a cleared task has the same form"
    assert asked(project, "seed", start_over=True) == "plan"


@pytest.mark.parametrize("verb", FORMS)
def test_while_another_operation_is_not_over(project: Project, stream: StreamHome, verb: str) -> None:
    lineage = start_lineage(stream)
    other = "apply" if verb != "apply" else "rescale"
    write_operation(stream, new_operation(stream, other, "0123456789abcdef", "ann", (lineage, 7)))
    with pytest.raises(PersonNeeded, match="is not finished"):
        asked(project, verb)


@pytest.mark.parametrize("verb", FORMS)
def test_one_of_the_same_kind_is_gone_on_with(project: Project, stream: StreamHome, verb: str) -> None:
    savepoint = "monday" if verb == "restore" else ""
    record = new_operation(stream, verb, "0123456789abcdef", "ann", (start_lineage(stream), 7), savepoint=savepoint)
    write_operation(stream, record)
    assert asked(project, verb) == "plan"


DIGEST = "0123456789abcdef"
FORM = {"verb": "touch", "stream": "clicks", "times": 3, "gently": True, "words": "a b\n\nc "}


@dataclass(frozen=True, kw_only=True)
class Touch(Command):
    name: ClassVar = "touch"
    purpose: ClassVar = "change nothing"

    times: int | None = option("--times", "Times", "number of touches", min=1, max=9)
    gently: bool = option("--gently", "Gently", "with care", default=False)
    words: tuple[str, ...] = option("--word", "Words", "word to say", default=())
    why: str | None = option("--because", None, "reason, for the command line alone")


@pytest.fixture
def touch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "touch", Touch)


def typed(*words: str) -> tuple[Any, ...]:
    """The command and the shared options that a command line comes to."""
    app, found = typer.Typer(), list[Any]()
    app.command()(command_line(Touch, lambda command, shared: found.extend((command, shared))))
    result = CliRunner().invoke(app, [*words])
    return (*found, result)


@pytest.mark.usefixtures("touch")
def test_the_command_line_of_a_seventh_command() -> None:
    command, shared, _ = typed("clicks", "--times", "3", "--word", "a", "--word", "b", "--approve", DIGEST)
    assert command == Touch(times=3, words=("a", "b"))
    assert shared == Shared(stream="clicks", approve=DIGEST)
    (refused,) = typed("clicks", "--times", "10")
    assert refused.exit_code == 2
    (shown,) = typed("--help")
    assert {"--times", "--gently", "--word", "--because"} <= {*shown.output.split()}


@pytest.mark.usefixtures("touch")
def test_the_form_of_a_seventh_command() -> None:
    form = form_of(["clicks"])
    assert "touch" in form["verb"].schema["enum"]
    assert form["times"].schema == {
        "type": ["null", "integer"],
        "minimum": 1,
        "maximum": 9,
        "title": "Times",
        "section": "To touch",
    }
    assert form["gently"].schema["type"] == "boolean"
    assert form["words"].schema["format"] == "multiline"
    assert "why_not" not in form
    assert form["why"].schema["title"] == "Why", "an option without a title has no field"


@pytest.mark.usefixtures("touch")
def test_the_record_of_the_request_of_a_seventh_command(project: Project) -> None:
    asked = Touch(times=3, gently=True, words=("a b", "c"))
    request = Request.parse_form(FORM)
    assert request.command == asked
    arguments = MakePlan(task_id="t", project=project).arguments(request, context(FORM))
    assert arguments[:3] == ("carry-out", "clicks", OPERATION)
    record = require_request(project.home_of("clicks"), OPERATION)
    assert (record.verb, Touch.from_json(record.request)) == ("touch", asked)
    with pytest.raises(InvalidSpec) as refused:
        Request.parse_form({**FORM, "key_groups": 8})
    assert refused.value.field == "key_groups"
