"""Lines of the commands at their edges: no batch yet, a message of many lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from sessionizer import __version__
from sessionizer.cli.app import app
from sessionizer.cli.inspect.words import one_line, table_text
from sessionizer.cli.run import describe_last_batch
from support.sentences import help_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.processes.fabricated_platform import Platform


@pytest.mark.parametrize(
    ("batch_id", "words"), [(None, "before its first batch"), (0, "after batch 0"), (7, "after batch 7")]
)
def test_a_driver_that_had_no_batch_ended_after_none(batch_id: int | None, words: str) -> None:
    assert describe_last_batch(batch_id) == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [("", ""), ("one", "one"), ("one\n", "one"), ("\n\n one \n\tat x\n" * 20, "one …"), ("one\r\ntwo", "one …")],
)
def test_a_cell_is_a_line(text: str, shown: str) -> None:
    assert one_line(text) == shown
    assert len(table_text(("a", "b"), [(text, "x")], left=("a",)).splitlines()) == 3


@pytest.mark.parametrize("words", [("--version",), ("--version", "status"), ("--control", "/nowhere", "--version")])
def test_the_release_is_printed_whatever_else_is_asked(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words])
    assert (done.exit_code, done.stdout.split()) == (0, ["sessionizer", __version__])


@pytest.mark.parametrize("words", [("run",), ("savepoint", "create"), ("jars", "fetch"), ()])
def test_help_shows_where_a_default_comes_from(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Markup of the terminal would swallow a name in square brackets."""
    monkeypatch.setenv("COLUMNS", "400")
    shown = CliRunner().invoke(app, [*words, "--help"]).stdout
    written = "".join(help_of(typer.main.get_command(app), "sessionizer"))
    assert "SESSIONIZER_" in shown
    assert "[" not in written


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("restore", "clicks"), "--time is missing"),
        (("savepoint", "create", "clicks", "--native", "--in", "foo://a/b"), "--in is 'foo://a/b'"),
        (("savepoint", "show", "clicks", "../x"), "remedy: give another savepoint"),
        (
            ("savepoint", "list", "clicks", "--in", "hdfs://127.0.0.1:1/a"),
            "the store of the folder of savepoints at hdfs",
        ),
        (("promote", "clikcs"), "knows nothing of clikcs"),
        (("abandon", "clikcs"), "knows nothing of clikcs"),
        (("home",), "--home is "),
    ],
)
def test_an_error_names_what_was_typed(
    words: tuple[str, ...],
    error: str,
    main: Callable[..., int],
    platform: Platform,
    capsys: pytest.CaptureFixture[str],
) -> None:
    platform.add("clicks")
    main(*words, "--home", str(platform.home))
    assert error in capsys.readouterr().err
