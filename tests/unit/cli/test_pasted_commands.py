"""A command in a message can be pasted: it has the stream and the places of the command that was typed."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from sessionizer import errors
from sessionizer.cli.app import app
from sessionizer.cli.places import CommandLine
from support.expected.named_commands import commands_in, faults
from support.processes.fabricated_platform import Platform

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
