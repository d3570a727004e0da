"""To another data root: the tables are copied, the stream goes on there, and what was left is as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.approved_command import write_unless_abandoned
from sessionizer.control.records.operation_record import OperationStage, require_no_operation
from sessionizer.errors import DataElsewhere, UnfaithfulState
from sessionizer.home.data_files import files_below, relative_name
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.lineage.checkpoint_record import require_readable_lineage
from sessionizer.spark.state.lineages.new_lineage import NewLineage
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_landed, batches_of
from support.places import opened
from support.processes.in_process import drain
from support.verbs.restored_stream import SAVED_AFTER, Restored

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from support.streams.stage import Stage

PATH, HDFS = "path", "hdfs"


class Killed(BaseException):
    """As a kill does, it passes every `except Exception`."""


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path) -> DataPath:
    found: DataPath = tmp_path / "elsewhere" if request.param == PATH else request.getfixturevalue("hdfs_folder")
    return found


@pytest.fixture
def moved(spark: SparkSession, tmp_path: Path, root: DataPath) -> Restored:
    restored = Restored.set_up(spark, tmp_path)
    restored.root = root
    return restored


def content(folder: DataPath) -> dict[str, bytes]:
    return {relative_name(file, folder): opened(file).read_bytes() for file in files_below(folder)}


def at_its_new_place(moved: Restored) -> Stage:
    assert moved.root is not None
    return replace(moved.stage, data=uri_of(moved.root))


def assert_exact(moved: Restored, stage: Stage) -> None:
    """What came before the savepoint was read by the lineage that was left."""
    then = CheckpointLog(moved.stage.stream_home.checkpoint(moved.before)).committed()[: SAVED_AFTER + 1]
    since = CheckpointLog(stage.checkpoint).committed()[1:]
    rows = [row for name in sorted(moved.files) for row in moved.files[name]]
    assert_landed(stage, [*batches_of(then, moved.files), *batches_of(since, moved.files)], rows)


@pytest.mark.long
@pytest.mark.parametrize("root", [PATH, HDFS], indirect=True)
def test_a_stream_goes_on_elsewhere_with_all_that_its_tables_had(moved: Restored) -> None:
    left, stage = moved.stage.stream_home, at_its_new_place(moved)
    tables, checkpoint = content(left.tables), content(left.checkpoint(moved.before))
    shown = "\n".join(moved.plan().lines())
    assert f" {moved.stage.home} to {stage.data}. " in shown
    assert f" {stage.data}/streams/clicks/tables/sessions" in shown
    record = moved.restore()
    assert record.counts, "rows left the copies"
    assert (content(left.tables), content(left.checkpoint(moved.before))) == (tables, checkpoint)
    with pytest.raises(DataElsewhere):
        require_readable_lineage(left, stage.lineage or "")
    require_readable_lineage(stage.stream_home, stage.lineage or "")
    drain(moved.spark, stage)
    assert_exact(moved, stage)


@pytest.mark.long
@pytest.mark.parametrize("root", [PATH], indirect=True)
def test_one_that_fails_leaves_nothing_there_and_one_that_was_killed_goes_on(
    moved: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = at_its_new_place(moved)

    def unfaithful(*_: object) -> None:
        raise UnfaithfulState("clicks", "1 of 2 keys")

    def die(home: StreamHome, record: OperationRecord) -> None:
        write_unless_abandoned(home, record)
        if record.step is OperationStage.SEEDED:
            raise Killed

    monkeypatch.setattr(NewLineage, "compare", unfaithful)
    with pytest.raises(UnfaithfulState):
        moved.restore("20261123T070000-abc123")
    assert list(content(stage.stream_home.tables)) == []
    require_no_operation(moved.stage.stream_home)
    monkeypatch.undo()
    monkeypatch.setattr("sessionizer.control.operation.write_unless_abandoned", die)
    with pytest.raises(Killed):
        moved.restore()
    monkeypatch.undo()
    assert stage.lineage == moved.before
    moved.restore()
    drain(moved.spark, stage)
    assert_exact(moved, stage)
