"""An upgrade to a release that cuts sessions elsewhere: its proof fails, and the stream never stops."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer.control.records.operation_record import read_operations
from sessionizer.control.records.process_records import request_stop
from sessionizer.errors import ReplayDiffers
from sessionizer.lineage.fingerprint import present_fingerprint, read_fingerprint
from sessionizer.state.proof.page import list_kept_pages
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined
from support.faults.patched_release import CUTS_ELSEWHERE, release_with, type_with
from support.places import opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def names_read(stage: Stage) -> set[str]:
    return {name for batch in CheckpointLog(stage.checkpoint).committed() for name in batch.files}


def test_a_bad_release_is_not_activated(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path / "released", clicks_spec(idle_after=None))
    clicks = write_click_files(tmp_path / "clicks", 7, rate=12)
    files = sorted((tmp_path / "clicks").iterdir())
    stage.bring(files[:5])
    run_to_end(stage, "first", until="caught-up")
    home, before = stage.stream_home, stage.lineage
    release = release_with(CUTS_ELSEWHERE, tmp_path / "release")
    with DriverProcess.start(stage, "old", until="stopped") as driver:
        shown = type_with(release, "upgrade", stage, "--prove", "--json")
        plan = json.loads(shown.stdout)
        assert (plan["possible"], plan["steps"][0]) == (True, "Prove")

        ended = type_with(release, "upgrade", stage, "--prove", "--approve", plan["digest"])
        assert ended.returncode == ReplayDiffers.exit_code, ended.stderr[-4_000:]
        assert (stage.lineage, read_operations(home), read_desired(home).state) == (before, [], DesiredState.RUNNING)
        (page,) = list_kept_pages(home)
        assert "unexplained" in (home.control / "proofs" / f"{page}.html").read_text()
        assert list(opened(home.proofs).iterdir()) == []
        assert not driver.ended

        stage.bring(files[5:])
        driver.wait_for(lambda: names_read(stage) >= {file.name for file in files}, "reading on")
        request_stop(home, driver.uid, "the test is over")
        assert driver.wait() == 0
    assert read_fingerprint(home, str(before)).code == present_fingerprint().code
    run_to_end(stage, "last")
    assert_as_defined(stage, clicks)
