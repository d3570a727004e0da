"""How the files of a checkpoint get their names on one machine (docs/adr/0037)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyspark

from sessionizer.launch.plain_spark import PLAIN_SPARK
from sessionizer.spark.internals import checkpoint_files
from sessionizer.spark.internals.checkpoint_files import CHECKPOINT_FILES, in_a_jar, local_checkpoint_settings

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

JARS = Path(pyspark.__file__).parent / "jars"


def test_a_local_checkpoint_names_its_files_by_the_older_interface(spark: SparkSession, tmp_path: Path) -> None:
    jvm = cast("Any", spark.sparkContext._jvm)
    companion = getattr(jvm.org.apache.spark.sql.execution.streaming.checkpointing, "CheckpointFileManager$")
    settings = cast("Any", spark._jsparkSession).sessionState().newHadoopConf()
    manager = getattr(companion, "MODULE$").create(jvm.org.apache.hadoop.fs.Path(str(tmp_path)), settings)
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"


def test_without_anything_private_the_class_is_named_only_where_spark_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_a_jar(CHECKPOINT_FILES, JARS)
    assert not in_a_jar(f"{CHECKPOINT_FILES}OfLater", JARS)
    assert not in_a_jar(CHECKPOINT_FILES, tmp_path)
    named = local_checkpoint_settings()
    monkeypatch.setenv(PLAIN_SPARK, "1")
    assert list(named.values()) == [CHECKPOINT_FILES]
    assert local_checkpoint_settings() == named
    monkeypatch.setattr(checkpoint_files, "CHECKPOINT_FILES", f"{CHECKPOINT_FILES}OfLater")
    assert local_checkpoint_settings() == {}
