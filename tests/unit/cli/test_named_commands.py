"""Each command that a remedy names exists, with its options. Each terminal cause of a source names one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import typer

from sessionizer import errors
from sessionizer.causes.table import CAUSES, remedy_for
from sessionizer.cli.app import app
from sessionizer.errors import Verdict
from sessionizer.lineage.active import Lineage
from sessionizer.lineage.canary.judge import late_backlog_line
from sessionizer.lineage.figures import Figures

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
    **{name: cause.remedy for name, cause in CAUSES.items()},
    **{f"{number}: {type(error).__name__}": remedy_for(error) for number, error in enumerate(WITH_MORE)},
    "a late backlog": LATE,
}


def commands_in(remedy: str) -> list[list[str]]:
    return [shlex.split(found)[1:] for found in COMMAND.findall(remedy)]


def unknown_words(words: list[str]) -> Iterator[str]:
    """The words of a command line that name no command and no option of it."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands") and rest:
        found = command.commands.get(rest[0])
        if found is None:
            yield rest[0]
            return
        command, rest = found, rest[1:]
    known = {name for parameter in command.params for name in parameter.opts}
    yield from (word for word in rest if word.startswith("-") and word not in known)


@pytest.mark.parametrize("name", REMEDIES)
def test_a_remedy_names_commands_that_there_are(name: str) -> None:
    assert {word for words in commands_in(REMEDIES[name]) for word in unknown_words(words)} == set()


@pytest.mark.parametrize("name", OF_SOURCES)
def test_what_is_wrong_with_a_source_has_a_command(name: str) -> None:
    assert CAUSES[name].verdict is not Verdict.TRANSIENT
    assert commands_in(CAUSES[name].remedy)


def test_a_word_that_is_no_command_is_found() -> None:
    assert list(unknown_words(["switsch"])) == ["switsch"]
    assert list(unknown_words(["switch", "--accept-lost", "clicks"])) == ["--accept-lost"]
    assert list(unknown_words(["spec", "check", "--deep", "clicks"])) == []
