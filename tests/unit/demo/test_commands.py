"""What the options of ``sessionizer-feed`` mean."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from sessionizer.errors import InvalidSpec
from sessionizer_demo.feed.commands import Target, choose_target, fault_rates, feed
from sessionizer_demo.feed.rows.faults import DEFAULT_FAULT_RATES
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.runner import KafkaTarget

if TYPE_CHECKING:
    from pathlib import Path

APP = typer.Typer()
APP.command()(feed)


def test_faults_change_the_defaults_or_stand_alone() -> None:
    assert fault_rates(["future=0.5"], clean=False) == DEFAULT_FAULT_RATES | {RowKind.FUTURE: 0.5}
    assert fault_rates(["future=0.5"], clean=True) == {RowKind.FUTURE: 0.5}


@pytest.mark.parametrize("entry", ["future", "future=much", "past=0.1", "=0.1"])
def test_a_fault_that_is_none_is_refused(entry: str) -> None:
    with pytest.raises(InvalidSpec, match="late_beyond"):
        fault_rates([entry], clean=False)


def test_a_target_needs_its_place() -> None:
    with pytest.raises(InvalidSpec, match=r"feed\.path"):
        choose_target(Target.FOLDER, None, None, "clicks")
    with pytest.raises(InvalidSpec, match=r"feed\.bootstrap_servers"):
        choose_target(Target.KAFKA, None, None, "clicks")
    assert choose_target(Target.KAFKA, None, "h:1", "clicks") == KafkaTarget("h:1", "clicks")


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
