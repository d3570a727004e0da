"""A stream whose source, tables, checkpoint, savepoints and records are in S3: restarted, and its killed commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from upath import UPath

from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer.control.records.operation_record import Ending, read_operations, require_no_operation
from sessionizer.home.data_files import list_names
from sessionizer.home.roots import uri_of
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_landed, batches_of, landed
from support.processes.driver_process import run_to_end
from support.processes.typed_command import TypedCommand
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.timeout(3_000)]

SAVED_FILES, FILES = 3, 6
RESTORE = ("restore",)
KILLED_AT = ("new lineage: seeded", "rows deleted", "new lineage: activated")


@pytest.fixture
def feed(s3_folder: str) -> UPath:
    """Return the folder of the source."""
    return UPath(f"{s3_folder}/feed")


@pytest.fixture
def stage(tmp_path: Path, s3_folder: str, feed: UPath) -> Stage:
    """Return a stream that was set up and has not run, with its source and all it owns in S3."""
    spec = clicks_spec()
    spec["source"]["path"] = uri_of(feed)
    return Stage.set_up(tmp_path, spec, data=f"{s3_folder}/lake", control=f"{s3_folder}/control")


def bring(feed: UPath, files: Iterable[Path]) -> None:
    """Put the files into ``feed``."""
    for file in files:
        (feed / file.name).write_bytes(file.read_bytes())


def test_a_restore_killed_at_each_line_that_it_says_is_finished_by_the_same_command(
    stage: Stage, feed: UPath, tmp_path: Path
) -> None:
    files = write_click_files(tmp_path / "clicks", FILES)
    clicks = sorted((tmp_path / "clicks").iterdir())
    bring(feed, clicks[:SAVED_FILES])
    run_to_end(stage, "first", until="caught-up")
    made = TypedCommand.start(stage, ("savepoint", "create"), "--id", "middle", "--hurry")
    assert made.end() == 0, made.said
    left = stage.lineage
    assert left
    then = CheckpointLog(stage.checkpoint).committed()
    bring(feed, clicks[SAVED_FILES:])
    run_to_end(stage, "second", until="caught-up")
    later = landed(stage)

    digest = TypedCommand.answer(stage, RESTORE, "middle")["digest"]
    for line in KILLED_AT:
        typed = TypedCommand.start(stage, RESTORE, "middle", "--approve", digest)
        typed.wait_for(line)
        typed.kill()
        assert stage.lineage == left or line == KILLED_AT[-1], line
    for _ in range(2):  # killed at its last line it may have been over already, and it is now
        typed = TypedCommand.start(stage, RESTORE, "middle", "--approve", digest)
        assert typed.end() == 0, typed.said

    home = stage.stream_home
    require_no_operation(home)
    assert [each.outcome for each in read_operations(home)] == [Ending.DONE]
    assert read_desired(home).state is DesiredState.RUNNING
    assert len(list_names(home.lineages)) == 2, "what was killed is gone"
    assert landed(stage).sessions.total() < later.sessions.total()
    run_to_end(stage, "last")
    since = CheckpointLog(stage.checkpoint).committed()[1:]
    rows = [row for name in sorted(files) for row in files[name]]
    assert_landed(stage, [*batches_of(then, files), *batches_of(since, files)], rows)
