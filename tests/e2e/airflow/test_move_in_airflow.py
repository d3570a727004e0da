"""A stream moves to another data root, as a person asks for it in the form; what it reads then comes out as it must."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml

from sessionizer.control.records.operation_record import Ending, read_operations
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_landed, batches_of
from support.pages.operate_form import OperateForm
from support.places import REPOSITORY, opened
from support.processes.driver_process import environment, run_to_end
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.live_airflow import Platform

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CLICKS = clicks_spec()
# in the order of the columns, which is that of the payload's
SPEC = yaml.safe_dump(CLICKS, sort_keys=False).replace("{", "{{").replace("}", "}}") + "name: {name}\n"
SETTINGS = {
    "SESSIONIZER_APPLICATION": str(REPOSITORY / "jobs" / "main.py"),
    "SESSIONIZER_APPROVERS": "admin",
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
}
FILES, BEFORE = 4, 2
SAVEPOINT = "to-the-lake"
WITHIN_S = 180


def save(stage: Stage, vault: Path) -> None:
    """What is open, in a folder of neither data root."""
    argv = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), "savepoint", "create", stage.name]
    options = ["--id", SAVEPOINT, "--in", str(vault), "--streams", str(stage.streams), "--home", str(stage.home)]
    subprocess.run([*argv, *options], env=environment(), check=True, timeout=WITHIN_S)


def test_a_stream_goes_on_in_another_data_root(platform: Platform, tmp_path: Path) -> None:
    root = platform.installation.root
    stage = Stage.set_up(root, CLICKS, home=platform.installation.platform_home)
    vault, lake, waiting = tmp_path / "vault", tmp_path / "lake", tmp_path / "waiting"
    files = write_click_files(waiting, FILES, rate=12)
    names = sorted(files)
    for name in names[:BEFORE]:
        (waiting / name).rename(stage.feed / name)
    run_to_end(stage, "before", "caught-up")
    save(stage, vault)
    left = stage.checkpoint

    form = OperateForm(platform)
    refused = form.ask("restore", savepoint=SAVEPOINT, move_to=str(lake))
    assert form.wait_for_end(refused) == "failed"
    assert "folder is empty" in "\n".join(form.errors(refused, "read_form"))

    run = form.ask("restore", savepoint=SAVEPOINT, folder=str(vault), move_to=str(lake), why="more room")
    shown = form.wait_for_plan(run)["body"].replace("\\", "")
    assert f" {stage.home} to {lake}. " in shown
    form.answer(run, "Approve")
    assert form.wait_for_end(run, 400) == "success", form.errors(run, "carry_out")
    (record,) = read_operations(platform.home)
    assert (record.verb, record.by, record.outcome) == ("restore", "admin (Airflow)", Ending.DONE)
    assert opened(left).exists()
    platform.parts.stop_all()

    moved = replace(stage, data=str(lake))
    assert moved.lineage == record.lineage_to
    for name in names[BEFORE:]:
        (waiting / name).rename(stage.feed / name)
    run_to_end(moved, "after")
    batches = [*CheckpointLog(left).committed(), *CheckpointLog(moved.checkpoint).committed()[1:]]
    assert_landed(moved, batches_of(batches, files), [row for name in names for row in files[name]])
