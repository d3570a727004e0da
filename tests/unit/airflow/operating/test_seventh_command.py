"""A seventh command gets its command line, form and record from its declaration, with no other edit."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from sessionizer.cli.state_commands.course import Shared, command_line
from sessionizer.control.records.operation_record import require_request
from sessionizer.errors import InvalidSpec
from sessionizer.state.commands.command import Command, option
from sessionizer.state.commands.registry import COMMANDS
from sessionizer_airflow.operating.jobs import MakePlan
from sessionizer_airflow.operating.request import Request, form_of
from sessionizer_airflow.project import Project
from support.verbs.asked_restore import OPERATION, context

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


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "touch", Touch)


def typed(*words: str) -> tuple[Any, ...]:
    """The command and the shared options that a command line comes to."""
    app, found = typer.Typer(), list[Any]()
    app.command()(command_line(Touch, lambda command, shared: found.extend((command, shared))))
    result = CliRunner().invoke(app, [*words])
    return (*found, result)


def test_its_command_line() -> None:
    command, shared, _ = typed("clicks", "--times", "3", "--word", "a", "--word", "b", "--approve", DIGEST)
    assert command == Touch(times=3, words=("a", "b"))
    assert shared == Shared(stream="clicks", approve=DIGEST)
    (refused,) = typed("clicks", "--times", "10")
    assert refused.exit_code == 2
    (shown,) = typed("--help")
    assert {"--times", "--gently", "--word", "--because"} <= {*shown.output.split()}


def test_its_form() -> None:
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


def test_the_record_of_its_request(project: Project) -> None:
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
