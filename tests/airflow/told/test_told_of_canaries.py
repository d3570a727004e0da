"""From a spec that was a mistake to the lineage before it: people are told, and nobody has to do anything."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.operation_record import Ending, read_operations
from support.expected.supervision_records import works
from support.expected.told_causes import made
from support.places import REPOSITORY
from support.processes.driver_process import environment, run_to_end
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.watched_stream import WatchedStream

PROGRAM_WITHIN_S = 300
REFUSING = {**clicks_spec()["mapping"], "event_time": "cast(null as timestamp)"}


def apply(stage: Stage, *options: str) -> str:
    """What the command prints, as a program of its own."""
    places = ("--streams", str(stage.streams), "--home", str(stage.home), "--master", "local[2]")
    argv = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), "apply", stage.name, *options, *places]
    done = subprocess.run(
        argv, env=environment(), capture_output=True, text=True, timeout=PROGRAM_WITHIN_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@made("LineageLeft")
@pytest.mark.long
def test_a_mistake_in_a_spec_is_taken_back_while_nobody_looks(watched: WatchedStream, tmp_path: Path) -> None:
    stage = watched.stage(clicks_spec())
    write_click_files(tmp_path / "clicks", files=4)
    files = sorted((tmp_path / "clicks").iterdir())
    shutil.copy2(files[0], stage.feed)
    run_to_end(stage, "first", until="caught-up")
    before = stage.lineage

    stage.write_spec({**clicks_spec(), "mapping": REFUSING})
    wanted = ("--accept", "mapping.event_time", "--back-if-unfit", "--trial", "2")
    plan = json.loads(apply(stage, *wanted, "--json"))
    assert (plan["possible"], plan["anew"], plan["trial"]["goes_back"]) == (True, True, True)
    apply(stage, *wanted, "--approve", plan["digest"])
    failed = stage.lineage
    assert failed not in {before, None}

    for file in files[1:]:
        shutil.copy2(file, stage.feed)
    watched.drive()
    watched.check("LineageLeft", names=f"lineage {before}")
    watched.drive(lambda: stage.lineage == before and works(watched.home))
    assert stage.lineage == before
    assert len(watched.told) == 1, "the driver that follows has nothing to tell"
    done = read_operations(watched.home)[-1]
    assert (done.verb, done.outcome) == ("rollback", Ending.DONE)
    assert done.by.endswith(f" {failed}")
