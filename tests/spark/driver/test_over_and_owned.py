"""What a second run must not do: take up a drained stream, or write the tables of another home's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import StreamDrained, TableOwned
from sessionizer.lineage.drained import DRAINED_FILE
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.driver_process import DriverProcess
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
def test_a_second_night_is_refused_and_so_is_a_second_home(tmp_path: Path) -> None:
    shared = tmp_path / "lake"
    spec = {**clicks_spec(), "sink": {"path": str(shared)}}
    first, second = (Stage.set_up(tmp_path / name, spec) for name in ("one", "two"))
    (first.feed / "night-1.json").write_bytes(line(0, "early") + b"\n" + line(600, "late"))
    with DriverProcess.start(first, "night-1") as driver:
        assert driver.wait() == 0, driver.said[-4_000:]
        assert driver.said.index("closed for good") < driver.said.index("starting Spark")
        assert "drained and over" in driver.said
        assert f"home: {first.home}" in driver.said
    sessions = table_rows(shared / "sessions")
    assert len(sessions) == 2
    assert first.lineage
    drain = DRAINED_FILE.of(first.stream_home, first.lineage).require()
    assert drain is not None
    assert (drain.batch_id, drain.over_at is not None) == (
        CheckpointLog(first.checkpoint).committed()[-1].batch_id,
        True,
    )

    (first.feed / "night-2.json").write_bytes(line(90_000, "tomorrow"))
    for until in ("drained", "stopped"):
        with DriverProcess.start(first, f"night-2-{until}", until=until) as driver:
            assert driver.wait() == StreamDrained.exit_code
            assert "`--until caught-up`" in driver.said
    ended = EXIT_FILE.of(first.stream_home, "night-2-stopped").read()
    assert ended is not None
    assert (ended.error_type, ended.terminal) == ("StreamDrained", True)

    (second.feed / "night-1.json").write_bytes(line(0, "early") + b"\n" + line(600, "late"))
    with DriverProcess.start(second, "copy") as driver:
        assert driver.wait() == TableOwned.exit_code, driver.said[-4_000:]
        owner = json.loads((first.home / "home.json").read_text())["id"]
        assert f"belongs to clicks@{owner}" in driver.said
        assert "ALTER TABLE" in driver.said
    assert table_rows(shared / "sessions") == sessions


@pytest.mark.long
def test_a_drain_that_was_cut_short_is_finished_whatever_is_asked_for(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    (stage.feed / "clicks.json").write_bytes(line(0, "early") + b"\n" + line(600, "late"))
    with DriverProcess.start(stage, "a") as driver:
        driver.wait_for(
            lambda: any(stage.stream_home.lineage_records.glob("*/drained.json")), "its drain", every_s=0.02
        )
        driver.kill_all()
    with DriverProcess.start(stage, "b", until="stopped") as driver:
        assert driver.wait() == 0, driver.said[-4_000:]
        assert "finished now" in driver.said
    assert len(table_rows(stage.table("sessions"))) == 2
    with DriverProcess.start(stage, "c", until="stopped") as driver:
        assert driver.wait() == StreamDrained.exit_code
