"""What lets a driver start quickly is at work: the archive of classes, and one set of Python workers."""

from __future__ import annotations

from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Phase
from sessionizer.launch.installation import jar_folder
from sessionizer.launch.local_jvm import class_archive
from support.expected.checkpoint_log import CheckpointLog
from support.processes.driver_process import DriverProcess
from support.processes.found_process import command_of
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec


def _note_step(stage: Stage, steps: set[int]) -> bool:
    """Note the newest progress of a start without a query. Returns whether there was any since it began.

    A supervisor goes by that.
    """
    beat = HEARTBEAT_FILE.of(stage.stream_home).read()
    if beat is not None and beat.phase is Phase.STARTING and beat.lineage is None and beat.progress_at is not None:
        steps.add(beat.progress_at)
    return len(steps) > 1


@pytest.mark.long
@pytest.mark.usefixtures("tuned")
def test_classes_come_from_the_archive_and_all_workers_from_one_daemon(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=4))
    write_click_files(stage.feed, 4)
    steps: set[int] = set()
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: _note_step(stage, steps), "a step of its start")
        driver.wait_for(lambda: bool(stage.lineage and CheckpointLog(stage.checkpoint).committed()), "a first batch")
        assert driver.jvm
        mapped = Path(f"/proc/{driver.jvm}/maps").read_text()
        commands = [command_of(child) for child in psutil.Process(driver.jvm).children()]
    # mapped means accepted: one that does not fit the class path is closed again
    assert str(class_archive(jar_folder())) in mapped
    assert [command[1:3] for command in commands if "-m" in command] == [["-m", "pyspark.daemon"]]
