"""To another data root: a user copies the tables, notes it, and restores. What was left is as it was."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.errors import DataAway, DataElsewhere
from sessionizer.home.data_files import copy_file, files_below, relative_name
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.lineage.fingerprint import require_checkpoint, require_readable_lineage
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_landed, batches_of
from support.places import opened
from support.processes.in_process import drain
from support.verbs.restored_stream import SAVED_AFTER, Restored

pytestmark = pytest.mark.long

PATH, HDFS = "path", "hdfs"


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path) -> DataPath:
    found: DataPath = tmp_path / "elsewhere" if request.param == PATH else request.getfixturevalue("hdfs_folder")
    return found


def content(folder: DataPath) -> dict[str, bytes]:
    return {relative_name(file, folder): opened(file).read_bytes() for file in files_below(folder)}


@pytest.mark.parametrize("root", [PATH, HDFS], indirect=True)
def test_a_stream_goes_on_elsewhere_with_all_that_its_tables_had(
    spark: SparkSession, tmp_path: Path, root: DataPath
) -> None:
    restored = Restored.set_up(spark, tmp_path)
    left, stage = restored.stage.stream_home, replace(restored.stage, data=uri_of(root))
    tables, checkpoint = content(left.tables), content(left.checkpoint(restored.before))
    for name in tables:
        target = stage.stream_home.tables / name
        opened(target.parent).mkdir(parents=True, exist_ok=True)
        copy_file(left.tables / name, target)
    noted = CliRunner().invoke(app, ["home", "--home", str(stage.home), "--moved-here", "--data", uri_of(root)])
    assert noted.exit_code == 0, noted.exception
    with pytest.raises(DataElsewhere):
        require_readable_lineage(left, restored.before)
    with pytest.raises(DataAway):
        require_checkpoint(stage.stream_home, restored.before)
    there = replace(restored, stage=stage)
    assert there.restore().counts, "rows left the copies"
    assert (content(left.tables), content(left.checkpoint(restored.before))) == (tables, checkpoint)
    require_readable_lineage(stage.stream_home, stage.lineage or "")
    drain(spark, stage)
    then = CheckpointLog(left.checkpoint(restored.before)).committed()[: SAVED_AFTER + 1]
    since = CheckpointLog(stage.checkpoint).committed()[1:]
    rows = [row for name in sorted(restored.files) for row in restored.files[name]]
    assert_landed(stage, [*batches_of(then, restored.files), *batches_of(since, restored.files)], rows)
