"""Each command that a remedy names can be pasted. Each terminal cause of a source names one."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from sessionizer import errors
from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import CAUSES, remedy_for
from sessionizer.cli.app import app
from sessionizer.cli.places import CommandLine
from sessionizer.control.history.straggler import STRAGGLER_REMEDIES
from sessionizer.errors import RetryEffect
from sessionizer.lineage.canary.judge import backfill_command
from sessionizer.stream_spec.spec_text import stream_schema
from support.expected.error_examples import EXAMPLES
from support.expected.named_commands import commands_in, faults
from support.places import REPOSITORY
from support.processes.fabricated_platform import Platform
from support.sentences import refusals_in, texts_in

OF_SOURCES: Final = (
    "source_data_loss", "source_rewritten", "source_forbidden", "source_missing", "schema_change", "bad_data",
    "SourceMissing", "SourceForbidden", "SourceReplaced",
)  # fmt: skip
"""Causes by which a source ends a driver until a person does something."""
WITH_MORE: Final = (
    errors.InvalidSpec("mapping.key", "user", "an expression over u"),
    errors.InvalidSpec("rules.older", 1, "a known key", file=Path("/home/lineages/a/spec.json")),
    errors.LineageUnfit("clicks", "b", "a", "80% of its rows were refused, 1% before"),
    errors.LineageUnfit("clicks", "b", None, "80% of its rows were refused, 1% before"),
)
"""Errors of which the command line says more than the cause."""
REMEDIES: Final = {
    **{name: name_stream(cause.remedy, "clicks") for name, cause in CAUSES.items()},
    **{f"{number}: {type(error).__name__}": remedy_for(error) for number, error in enumerate([*WITH_MORE, *EXAMPLES])},
    "a late backlog": f"run `{backfill_command('clicks')}`",
    **{f"a straggler: {kind}": name_stream(remedy, "clicks") for kind, remedy in STRAGGLER_REMEDIES.items()},
}

REFUSALS: Final = sorted(
    text
    for text in {*refusals_in((REPOSITORY / "jobs").rglob("*.py")), *map(str, [*WITH_MORE, *EXAMPLES])}
    if commands_in(text)
)
"""The values to use instead, and the errors, that name a command."""
SECTIONS: Final = stream_schema()["properties"]
FIELD: Final = re.compile(rf"(?<![\w./{{])({'|'.join(SECTIONS)})\.((?!json\b)[a-z_]+)(?!\w)")
"""A field of a spec, as a sentence names it: `rules.idle_after`."""
VARIABLE: Final = re.compile(r"SESSIONIZER_[A-Z_]+")
FILLED_IN: Final = re.compile(r"\{[^{}]*\}|<[a-z]+>|[A-Z]{3,}|…")


def fields_of(section: str) -> set[str]:
    """Return the names of all fields in a section of a spec, whichever kind of source it is."""
    schema, found, todo = stream_schema(), set[str](), [SECTIONS[section]]
    while todo:
        node = todo.pop()
        node = schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        found |= set(node.get("properties", ()))
        todo += [*node.get("anyOf", ()), *node.get("oneOf", ())]
    return found


def test_the_commands_of_a_remedy_and_of_a_refusal_can_be_pasted() -> None:
    texts = [*REMEDIES.items(), *((text, text) for text in REFUSALS)]
    found = [(name, words) for name, text in texts for words in commands_in(text)]
    assert [(name, words) for name, words in found if list(faults(words))] == []
    assert [name for name, words in found if name in REMEDIES and "…" in words] == []


def test_what_a_text_names_exists() -> None:
    """A remedy once named the field `rules.idle_timeout`, which no spec has."""
    texts = list(texts_in(file for folder in ("jobs", "plugins") for file in (REPOSITORY / folder).rglob("*.py")))
    scripts = [file.read_text(encoding="utf-8") for file in (REPOSITORY / "jobs/sessionizer/page").rglob("*.js")]
    settings = set(VARIABLE.findall((REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")))
    fields = {section: fields_of(section) for section in SECTIONS}
    named = [found for text in texts for found in FIELD.findall(text)]
    typed = [words for text in (*texts, *scripts) for words in commands_in(FILLED_IN.sub("X", text))]
    commands = [words for words in typed if words[0] != "X" and words[0].isalpha()]
    assert (len(named) > 50, len(commands) > 80) == (True, True)
    assert [".".join(found) for found in named if found[1] not in fields[found[0]]] == []
    assert {name for text in texts for name in VARIABLE.findall(text)} - settings - {"SESSIONIZER_SUBMITTED"} == set()
    assert [words for words in commands if list(faults([*words, "X", "X"]))] == []


@pytest.mark.parametrize("name", OF_SOURCES)
def test_what_is_wrong_with_a_source_has_a_command(name: str) -> None:
    assert CAUSES[name].verdict is not RetryEffect.TRANSIENT
    assert commands_in(CAUSES[name].remedy)


def test_what_is_wrong_with_a_command_is_found() -> None:
    assert list(faults(["switsch"])) == ["switsch"]
    assert list(faults(["switch", "--accept-lost", "clicks"])) == ["--accept-lost"]
    assert list(faults(["spec", "check", "--deep", "clicks"])) == []
    assert list(faults(["savepoint", "list"])) == ["stream"]
    assert list(faults(["run", "--until", "caught-up"])) == ["stream"]


ROOT: Final[Any] = typer.main.get_command(app)


@pytest.mark.parametrize(
    ("typed", "said", "pasted"),
    [
        ("restore v x --home /a", "`sessionizer savepoint list v`", "`sessionizer savepoint list v --home /a`"),
        ("restore v x --home=/a", "see `sessionizer status`.", "see `sessionizer status --home /a`."),
        ("savepoint show v x --home /a --in /b", "`sessionizer savepoint create v`",
         "`sessionizer savepoint create v --home /a`"),
        ("run v --streams s --home /a --data /d", "`sessionizer promote v`", "`sessionizer promote v --home /a`"),
        ("run v --streams s --data '/d e'", "`sessionizer apply v`", "`sessionizer apply v --streams s --data '/d e'`"),
        ("--control hdfs://n/c run v", "`sessionizer status`", "`sessionizer --control hdfs://n/c status`"),
        ("run v --home /a --data /d", "`sessionizer find v --home /b`", "`sessionizer find v --home /b`"),
        ("restore v x --home /a", "so: sessionizer abandon v", "so: sessionizer abandon v --home /a"),
        ("run v --home /a", "run the same command, or `make`", "run the same command, or `make`"),
        ("run v", "`sessionizer status v`", "`sessionizer status v`"),
        ("-m pytest tests --home /a", "`sessionizer status v`", "`sessionizer status v`"),
    ],
)  # fmt: skip
def test_a_command_acts_on_the_places_that_were_typed(typed: str, said: str, pasted: str) -> None:
    assert CommandLine.parse(ROOT, shlex.split(typed)).complete(said) == pasted
    assert [word for words in commands_in(pasted) for word in faults(words)] == []


@pytest.mark.parametrize(
    ("typed", "stream"),
    [("run v", "v"), ("savepoint diff --events v a b", "v"), ("--control c stop --wait 0 v", "v"), ("status", None)],
)
def test_the_stream_is_the_argument_of_that_name(typed: str, stream: str | None) -> None:
    assert CommandLine.parse(ROOT, typed.split()).stream == stream


def test_a_remedy_of_an_error_without_a_stream_has_the_typed_one(
    main: Callable[..., int], platform: Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main("savepoint", "show", "clicks", "nope", "--home", str(platform.home))
    assert code == errors.UnknownSavepoint.exit_code
    named = commands_in(capsys.readouterr().err)
    assert named == [["savepoint", "list", "clicks", "--home", str(platform.home)]]


def test_status_names_commands_for_its_home(
    main: Callable[..., int], platform: Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    platform.add("clicks")
    main("status", "clicks", "--streams", str(platform.streams), "--home", str(platform.home))
    places = ["--streams", str(platform.streams), "--home", str(platform.home)]
    assert commands_in(capsys.readouterr().out) == [["run", "clicks", *places]]


def test_the_remedy_of_a_wrong_spec_checks_the_same_folder(
    main: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v.yaml").write_text("name: v\nsink: 1\n")
    assert main("spec", "check", "--streams", str(tmp_path)) == errors.InvalidSpec.exit_code
    named = commands_in(capsys.readouterr().err)
    assert named
    assert {tuple(words) for words in named} == {("spec", "check", "--deep", "--streams", str(tmp_path))}
