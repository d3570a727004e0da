"""Each command that a remedy names can be pasted. Each terminal cause of a source names one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import typer

from sessionizer import errors
from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import CAUSES, remedy_for
from sessionizer.cli.app import app
from sessionizer.control.history.straggler import STRAGGLER_REMEDIES
from sessionizer.errors import Verdict
from sessionizer.lineage.active import Lineage
from sessionizer.lineage.canary.judge import late_backlog_line
from sessionizer.lineage.figures import Figures
from support.expected.error_examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_SOURCES: Final = (
    "source_data_loss", "source_rewritten", "source_forbidden", "source_missing", "schema_change", "bad_data",
    "SourceMissing", "SourceForbidden", "SourceReplaced",
)  # fmt: skip
"""Causes by which a source ends a driver until a person does something."""
COMMAND: Final = re.compile(r"`(sessionizer [^`]+)`")
LATE: Final = late_backlog_line("clicks", Lineage("a", 0), Figures(read=96, late=69), 0) or ""
WITH_MORE: Final = (
    errors.InvalidSpec("key_groups", 8, "Run `sessionizer rescale`, because the state has 16 key groups"),
    errors.InvalidSpec("source.topic", "b", "Run `sessionizer switch` to continue elsewhere than at 'a'"),
    errors.InvalidSpec("mapping.key", "user", "an expression over u"),
    errors.InvalidSpec("rules.older", 1, "a known key", file=Path("/home/lineages/a/spec.json")),
    errors.LineageUnfit("clicks", "b", "a", "80% of its rows were refused, 1% before"),
    errors.LineageUnfit("clicks", "b", None, "80% of its rows were refused, 1% before"),
)
"""Errors of which the command line says more than the cause."""
REMEDIES: Final = {
    **{name: name_stream(cause.remedy, "clicks") for name, cause in CAUSES.items()},
    **{f"{number}: {type(error).__name__}": remedy_for(error) for number, error in enumerate([*WITH_MORE, *EXAMPLES])},
    "a late backlog": LATE,
    **{f"a straggler: {kind}": name_stream(remedy, "clicks") for kind, remedy in STRAGGLER_REMEDIES.items()},
}


def commands_in(remedy: str) -> list[list[str]]:
    return [shlex.split(found)[1:] for found in COMMAND.findall(remedy)]


def faults(words: list[str]) -> Iterator[str]:
    """The words of a command line that name no command and no option of it, and the arguments that it lacks."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands") and rest:
        found = command.commands.get(rest[0])
        if found is None:
            yield rest[0]
            return
        command, rest = found, rest[1:]
    options = {name: each for each in command.params for name in each.opts if each.param_type_name == "option"}
    needed = [each.name for each in command.params if each.param_type_name == "argument" and each.required]
    given, left = 0, iter(rest)
    for word in left:
        if not word.startswith("-"):
            given += 1
        elif word not in options:
            yield word
        elif not options[word].is_flag:
            next(left, None)
    yield from needed[given:]


@pytest.mark.parametrize("name", REMEDIES)
def test_the_commands_of_a_remedy_can_be_pasted(name: str) -> None:
    commands = commands_in(REMEDIES[name])
    assert [words for words in commands if "…" in words or list(faults(words))] == []


@pytest.mark.parametrize("name", OF_SOURCES)
def test_what_is_wrong_with_a_source_has_a_command(name: str) -> None:
    assert CAUSES[name].verdict is not Verdict.TRANSIENT
    assert commands_in(CAUSES[name].remedy)


def test_what_is_wrong_with_a_command_is_found() -> None:
    assert list(faults(["switsch"])) == ["switsch"]
    assert list(faults(["switch", "--accept-lost", "clicks"])) == ["--accept-lost"]
    assert list(faults(["spec", "check", "--deep", "clicks"])) == []
    assert list(faults(["savepoint", "list"])) == ["stream"]
    assert list(faults(["run", "--until", "caught-up"])) == ["stream"]
