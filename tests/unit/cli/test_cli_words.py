"""Lines of the commands at their edges: no batch yet, a message of many lines."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from queue import Queue

import pyarrow as pa
import pytest
import typer
from deltalake import write_deltalake
from typer.core import TyperGroup
from typer.testing import CliRunner

from sessionizer import __version__
from sessionizer.cli.app import app
from sessionizer.cli.inspect.words import one_line, table_text
from sessionizer.cli.run import describe_last_batch
from sessionizer.cli.terminal import Silence, SilenceTeller, Work, WorkPace
from sessionizer.errors import InvalidSpec, NothingToShow, UnknownStream
from sessionizer.home.names import LATE_EVENTS
from support.fixtures.platform import Captured, Main
from support.processes.fabricated_platform import Platform
from support.sentences import help_of


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


CONTROLS = "\x07\x1b]0;mine\x9b2J\x7f\u202e\u2066"
"""Rings, sets the title, clears the screen, and turns the direction of what follows."""


def test_a_cell_controls_no_terminal_and_is_not_endless() -> None:
    shown = table_text(("key", "batch"), [(f"müller\xa0{CONTROLS}{'z' * 5_000}", "1")], left=("key",))
    assert not {*CONTROLS} - {*"]0;mine2J"} & {*shown}
    assert "müller\xa0�" in shown
    assert max(map(len, shown.splitlines())) < 150


def test_a_found_value_controls_no_terminal(
    platform: Platform, main: Main, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("SESSIONIZER_STREAMS", str(platform.streams))
    home, at = platform.add("clicks"), datetime(2026, 11, 26, tzinfo=UTC)
    row = {"key": f"u{CONTROLS}", "event_id": "e-1", "event_time": at, "lineage": "l", "batch_id": 4, "noticed_at": at}
    write_deltalake(home.table_locations(None)[LATE_EVENTS], pa.Table.from_pylist([row]))
    assert main("find", "clicks", "--event", "e-1", "--home", str(platform.home)) == 0
    told = capsys.readouterr().out
    assert "late: e-1 of u�" in told
    assert not {*CONTROLS} - {*"]0;mine2J"} & {*told}


def test_a_long_silence_is_told_ever_more_seldom_until_a_line_is_printed() -> None:
    silence = Silence(since=0)
    told = [second for second in range(301) if silence.line(second)]
    assert told == [15, 30, 60, 120, 180, 240, 300]
    silence.end(310)
    assert [second for second in range(310, 341) if silence.line(second)] == [325, 340]


def test_a_command_that_prints_nothing_is_told_of_until_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionizer.cli.terminal.FIRST_S", 0)
    lines, later = Queue[str](), Queue[str]()
    teller = SilenceTeller(lines.put, look_every_s=0.001)
    teller.start()
    assert "still working" in lines.get(timeout=60)
    teller.stop()
    teller.write = later.put
    teller.start()
    assert "still working" in later.get(timeout=60), "as after a question"
    teller.stop()


def test_work_is_told_with_its_rate_and_the_time_left() -> None:
    pace = WorkPace()
    told = [pace.line(work, now) for now, work in enumerate((Work(1, 0, 40), Work(1, 10, 40), Work(2, 3, 4), None))]
    assert [each and each.split(", ") for each in told] == [
        ["0 of 40 tasks"],
        ["10 of 40 tasks", "10.0/s", "3 s left"],
        ["3 of 4 tasks"],
        None,
    ]
    assert str(told[1]) in str(Silence(0).line(15, told[1]))


@pytest.mark.parametrize("shows", [True, False])
def test_work_is_a_live_line_of_a_terminal_and_plain_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, *, shows: bool
) -> None:
    monkeypatch.setattr("sessionizer.cli.terminal.FIRST_S", 0)
    plain: Queue[str] = Queue()
    live: Queue[str] = Queue()
    show = live.put if shows else None
    teller = SilenceTeller(plain.put, look_every_s=0.001, show=show, work=lambda: Work(1, 2, 4))
    teller.start()
    assert "2 of 4 tasks" in (live if shows else plain).get(timeout=60)
    teller.stop()
    assert (plain if shows else live).empty()


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
    ("typed", "completed"),
    [
        ("sta", ["status", "state"]),
        ("status cl", ["clicks"]),
        ("savepoint create ", ["clicks", "visits"]),
        ("run x", []),
    ],
)
def test_commands_and_names_of_streams_are_completed(
    typed: str, completed: list[str], platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.add("clicks")
    platform.add("visits").prepare()
    (platform.streams / "visits.yaml").unlink()
    monkeypatch.setenv("SESSIONIZER_STREAMS", str(platform.streams))
    monkeypatch.setenv("SESSIONIZER_HOME", str(platform.home))
    monkeypatch.setenv("_SESSIONIZER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"sessionizer {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" "))))
    assert CliRunner().invoke(app, [], prog_name="sessionizer").stdout.split() == completed


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("restore", "clicks"), "`sessionizer savepoint list clicks --home "),
        (
            ("restore", "clicks", "a", "--time", "2026-11-23"),
            "Omit it, because SAVEPOINT is given\nremedy: correct --time",
        ),
        (("find", "clicks"), "--key is missing. Give --key or --event\nremedy: add --key"),
        (("find", "clicks", "--key", "a", "--event", "b"), "--event is 'b'. Omit it, because --key is given"),
        (("savepoint", "create", "clicks", "--native", "--in", "foo://a/b"), "--in is 'foo://a/b'"),
        (("savepoint", "show", "clicks", "../x"), "remedy: give another savepoint"),
        (
            ("savepoint", "list", "clicks", "--in", "hdfs://127.0.0.1:1/a"),
            "at hdfs://127.0.0.1:1/a/clicks does not answer",
        ),
        (("promote", "clikcs"), "knows nothing of clikcs"),
        (("abandon", "clikcs"), "knows nothing of clikcs"),
        (("promote", "clicks"), "'clicks' has nothing to save: it never ran"),
        (("home",), "--home is "),
    ],
)
def test_an_error_names_what_was_typed(
    words: tuple[str, ...],
    error: str,
    main: Main,
    platform: Platform,
    capsys: Captured,
) -> None:
    platform.add("clicks")
    main(*words, "--home", str(platform.home))
    assert error in capsys.readouterr().err


def commands_of_a_stream(group: TyperGroup, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that takes a stream, with a value for each other thing that it needs."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands_of_a_stream(command, (*words, name))
        elif any(each.name == "stream" for each in command.params):
            needed = [each for each in command.params if each.required or each.name in {"stream", "key"}]
            yield (*words, name, *(word for each in needed for word in typed(str(each.name), each.opts[0])))


def typed(name: str, flag: str) -> tuple[str, ...]:
    value = {"stream": "clikcs", "against": "."}.get(name, "a")
    return (flag, value) if flag.startswith("-") else (value,)


@pytest.mark.parametrize("words", [*commands_of_a_stream(typer.main.get_group(app))], ids=" ".join)
def test_every_command_refuses_a_stream_that_nothing_knows(
    words: tuple[str, ...], main: Main, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.add("clicks")
    monkeypatch.setenv("SESSIONIZER_STREAMS", str(platform.streams))
    monkeypatch.setenv("SESSIONIZER_HOME", str(platform.home))
    assert main(*words) == UnknownStream.exit_code


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("savepoint", "create", "clicks", "--in", ""), "--in"),
        (("savepoint", "list", "clicks", "--in=  "), "--in"),
        (("history", "clicks", "--input", ""), "--input"),
        (("status", "--home", ""), "--home"),
        (("--control=", "status"), "--control"),
        (("rescale", ""), "ARGUMENT"),
    ],
)
def test_no_option_takes_an_empty_text(
    words: tuple[str, ...], field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path would take it for the working directory."""
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, [*words]).exception
    assert isinstance(error, InvalidSpec)
    assert error.field == field
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [("find", "clicks", "--key", ""), ("find", "clicks", "--event= "), ("state", "show", "clicks", "--key=")]
)
def test_an_empty_key_or_event_id_is_one_like_any_other(words: tuple[str, ...], tmp_path: Path) -> None:
    error = CliRunner().invoke(app, [*words, "--home", str(tmp_path)]).exception
    assert error is None or isinstance(error, NothingToShow)


@pytest.mark.parametrize("name", ["a b", "Clicks", "../clicks", "clicks.yaml"])
def test_a_name_that_no_stream_can_have_is_corrected_where_it_is_typed(name: str, platform: Platform) -> None:
    for words in (("stop",), ("status",), ("rollback",), ("savepoint", "list"), ("abandon",)):
        error = CliRunner().invoke(app, [*words, name, "--home", str(platform.home)]).exception
        assert isinstance(error, InvalidSpec)
        assert (error.field, error.advise()) == ("STREAM", "give another STREAM")
