"""Two users who upgrade one stream at the same time, each by another plan: one succeeds, the other is refused."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.errors import LeaseHeld, OperationPending, PlanChanged, StreamMovedOn
from sessionizer.home.data_files import list_names
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.stream_spec.decisions import document_of
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_landed, batches_of
from support.faults.patched_release import type_with
from support.places import REPOSITORY
from support.processes.driver_process import run_to_end
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

REFUSED = {error.exit_code for error in (OperationPending, StreamMovedOn, PlanChanged, LeaseHeld)}


def upgrade(stage: Stage, *flags: str) -> tuple[int, str]:
    ended = type_with(REPOSITORY, "upgrade", stage, *flags)
    return ended.returncode, ended.stdout


def test_one_of_two_plans_is_carried_out(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path / "two", clicks_spec())
    files = write_click_files(tmp_path / "clicks", 4, rate=12)
    clicks = sorted((tmp_path / "clicks").iterdir())
    stage.bring(clicks[:2])
    run_to_end(stage, "first", until="caught-up")
    home, before = stage.stream_home, str(stage.lineage)
    stage.write_spec({**clicks_spec(), "trigger_interval": "2 seconds"})
    kinds = ((), ("--new-lineage",))
    digests = [json.loads(upgrade(stage, *kind, "--json")[1])["digest"] for kind in kinds]
    with ThreadPoolExecutor() as users:
        running = [
            users.submit(upgrade, stage, *kind, "--approve", digest)
            for kind, digest in zip(kinds, digests, strict=True)
        ]
        codes = [each.result()[0] for each in running]
    assert 0 in codes
    assert set(codes) - {0} < REFUSED
    (done,) = (record for record in read_operations(home) if record.outcome is Ending.DONE)
    assert stage.lineage == done.lineage_to
    assert read_desired(home).state is DesiredState.RUNNING
    assert set(list_names(home.lineages)) == {before, done.lineage_to}, "nothing is left of the other"
    record = SPEC_FILE.of(home, str(stage.lineage)).require()
    assert record is not None
    assert record.document == document_of(stage.spec())

    stage.bring(clicks[2:])
    run_to_end(stage, "last")
    batches = CheckpointLog(home.checkpoint(before)).committed()
    if stage.lineage != before:
        batches += CheckpointLog(stage.checkpoint).committed()[1:]
    assert_landed(stage, batches_of(batches, files), [row for name in sorted(files) for row in files[name]])
