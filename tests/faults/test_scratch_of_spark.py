"""Spark's scratch holds keys and events: only its user may enter it, and what a killed driver leaves is removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.processes.driver_process import DriverProcess, run_to_end
from support.streams.click_files import write_click_files
from support.streams.moments import Moment, freeze_at
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_killed_drivers_scratch_is_closed_and_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(scratch))
    stage = Stage.set_up(tmp_path / "stage", clicks_spec())
    write_click_files(stage.feed, 4)
    with DriverProcess.start(stage, "d0") as driver:
        freeze_at(Moment.BATCH_RUNS, driver, stage)
        (base,) = scratch.glob("streaming-state-*")
        assert base.stat().st_mode & 0o077 == 0
        (left,) = base.iterdir()
        assert any(left.glob("blockmgr-*"))
        outside = {path.name.partition("-")[0] for path in scratch.iterdir()}
        assert outside <= {"streaming", "hsperfdata_root"}, outside
        driver.kill_all()
    assert any(left.rglob("*.so")), "the libraries of a JVM that was killed stay"
    run_to_end(stage, "last", apply=True)
    assert list(base.iterdir()) == []
