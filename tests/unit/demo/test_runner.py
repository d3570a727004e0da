"""A feed into a folder: complete files only, counted truly."""

import json
import shlex
import time
from pathlib import Path

import pytest
import typer
from sqlalchemy import make_url
from typer.testing import CliRunner

from sessionizer.errors import InvalidSpec, UnwritablePath
from sessionizer_demo.feed.commands import Target, choose_target, fault_rates, feed
from sessionizer_demo.feed.generator import generate_within
from sessionizer_demo.feed.rows.faults import DEFAULT_FAULT_RATES
from sessionizer_demo.feed.rows.kinds import Destination, RowKind
from sessionizer_demo.feed.runner import FeedOptions, FolderTarget, KafkaTarget, run_feed
from sessionizer_demo.feed.scenario import Bounds, Scenario
from sessionizer_demo.feed.tally import Tally
from sessionizer_demo.local_airflow.installation import Installation
from sessionizer_demo.show.words import welcome
from support.expected.named_commands import faults
from support.places import REPOSITORY

START_MS = 1_750_000_000_000
SCENARIO = Scenario(start_ms=START_MS)
BOUNDS = Bounds(events=2_000)


def options(folder: Path) -> FeedOptions:
    return FeedOptions(scenario=SCENARIO, target=FolderTarget(folder), bounds=BOUNDS, is_paced=False)


def visible_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name[0] not in "._")


def lines_of(folder: Path) -> list[bytes]:
    return [line for path in visible_files(folder) for line in path.read_bytes().splitlines()]


def test_the_files_hold_every_row_in_order_and_nothing_else(tmp_path: Path) -> None:
    seen: list[int] = []

    def note(tally: Tally) -> None:
        seen.append(tally.rows)
        assert len(lines_of(tmp_path)) == tally.rows, "progress is told after each tick"

    tally = run_feed(options(tmp_path), on_tick=note)
    assert lines_of(tmp_path) == [row.value for row in generate_within(SCENARIO, BOUNDS)]
    assert tally.rows == 2_000
    assert visible_files(tmp_path) == sorted(tmp_path.iterdir())
    assert len(seen) == len(visible_files(tmp_path))


def test_a_file_is_complete_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename
    renamed = []

    def watched_rename(source: Path, target: Path) -> Path:
        assert source.name[0] in "._"
        assert not target.exists()
        renamed.append((target, source.read_bytes()))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", watched_rename)
    run_feed(options(tmp_path))
    assert [target for target, _ in renamed] == visible_files(tmp_path)
    assert all(target.read_bytes() == content and content.endswith(b"\n") for target, content in renamed)


def test_the_tally_is_the_ground_truth(tmp_path: Path) -> None:
    tally = run_feed(options(tmp_path))
    rows = list(generate_within(SCENARIO, BOUNDS))
    assert tally.by_kind == {kind: n for kind in RowKind if (n := sum(row.kind is kind for row in rows))}
    assert sum(tally.rows_by_destination.values()) == tally.rows
    for_sessions = [row for row in rows if row.kind.destination is Destination.SESSIONS]
    assert tally.rows_by_destination[Destination.SESSIONS] == len(for_sessions)
    assert tally.logouts == sum(row.event.type == "logout" for row in for_sessions)
    assert json.loads(json.dumps(tally.as_dict()))["rows"] == 2_000


APP = typer.Typer()
APP.command()(feed)


def test_faults_change_the_defaults_or_stand_alone() -> None:
    assert fault_rates(["future=0.5"], clean=False) == DEFAULT_FAULT_RATES | {RowKind.FUTURE: 0.5}
    assert fault_rates(["future=0.5"], clean=True) == {RowKind.FUTURE: 0.5}


@pytest.mark.parametrize("entry", ["future", "future=much", "past=0.1", "=0.1"])
def test_a_fault_that_is_none_is_refused(entry: str) -> None:
    with pytest.raises(InvalidSpec, match="late_beyond"):
        fault_rates([entry], clean=False)


def test_a_target_needs_its_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"feed\.path"):
        choose_target(Target.FOLDER, None, None, "clicks")
    with pytest.raises(InvalidSpec, match=r"feed\.bootstrap_servers"):
        choose_target(Target.KAFKA, None, None, "clicks")
    assert choose_target(Target.KAFKA, None, "h:1", "clicks") == KafkaTarget("h:1", "clicks")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnwritablePath):
        run_feed(options(tmp_path / "file" / "folder"))


def test_a_feed_at_once_is_in_the_past_and_ends_with_its_ground_truth(tmp_path: Path) -> None:
    arguments = ["--to", "folder", "--path", str(tmp_path), "--events", "300", "--no-pace", "--clean"]
    outcome = CliRunner().invoke(APP, arguments)
    assert outcome.exit_code == 0
    assert "300  rows of" in outcome.stdout
    times = [json.loads(line)["ts"] for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert len(times) == 300
    assert max(times) <= time.time() * 1000


def test_an_access_log_is_written_as_a_log(tmp_path: Path) -> None:
    arguments = ["--stream", "access_log", "--to", "folder", "--path", str(tmp_path), "--events", "50", "--no-pace"]
    outcome = CliRunner().invoke(APP, [*arguments, "--json"])
    assert json.loads(outcome.stdout)["rows"] == 50
    assert {path.suffix for path in tmp_path.iterdir()} == {".log"}


def test_the_commands_of_the_welcome_look_at_the_demos_own_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONIZER_HOME", raising=False)
    installation = Installation(root=tmp_path / "demo", port=1)
    lines = [shlex.split(line) for line in welcome(installation, "clicks").splitlines() if line.startswith("  ")]
    exported = dict(word.split("=", 1) for words in lines if words[0] == "export" for word in words[1:])
    typed = next(words for words in lines if Path(words[0]).name == "sessionizer")
    assert exported["SESSIONIZER_HOME"] == installation.environment()["SESSIONIZER_HOME"]
    assert (Path(exported["SESSIONIZER_STREAMS"]) / "clicks.yaml").is_relative_to(REPOSITORY)
    assert list(faults(typed[1:])) == []


def test_a_part_of_airflow_waits_long_for_the_write_of_another(tmp_path: Path) -> None:
    installation = Installation(root=tmp_path / "demo", port=1)
    address = make_url(installation.environment()["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    (file,), options = address.get_dialect()().create_connect_args(address)
    assert file == str(installation.database)
    # Python's own default gives up after 5 seconds, and a scheduler ends
    assert options["timeout"] == 60
