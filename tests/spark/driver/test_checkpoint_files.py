"""Names of the files of a checkpoint on one machine (docs/tuning.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sessionizer.launch.driver_environment import plain

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_local_checkpoint_names_its_files_by_the_older_interface(spark: SparkSession, tmp_path: Path) -> None:
    jvm = cast("Any", spark.sparkContext._jvm)
    companion = getattr(jvm.org.apache.spark.sql.execution.streaming.checkpointing, "CheckpointFileManager$")
    settings = cast("Any", spark._jsparkSession).sessionState().newHadoopConf()
    manager = getattr(companion, "MODULE$").create(jvm.org.apache.hadoop.fs.Path(str(tmp_path)), settings)
    expected = "FileContextBasedCheckpointFileManager" if plain() else "FileSystemBasedCheckpointFileManager"
    assert manager.getClass().getSimpleName() == expected
