"""What lets a driver start quickly is at work: the archive of classes, and one set of Python workers."""

import gc
import os
import venv
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Phase
from sessionizer.control.records.process_records import request_stop
from sessionizer.core.wire.schema import group_labels
from sessionizer.errors import ExecutorsUnfit, PrivateDoorBroken
from sessionizer.launch.driver_environment import class_archive
from sessionizer.launch.installation import jar_folder
from sessionizer.spark.driver import executors
from sessionizer.spark.driver.executors import require_fit_executors
from sessionizer.spark.driver.housekeeping import AFTER_BATCHES, Rehearsal, rehearse_checkpoint
from sessionizer.spark.query.assembly import packer
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.places import opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.ports import command_of, eventually
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec


@pytest.mark.long
@pytest.mark.usefixtures("tuned")
def test_classes_come_from_the_archive_and_all_workers_from_one_daemon(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=4))
    write_click_files(stage.feed, 4)
    steps: set[int] = set()

    def has_stepped() -> bool:
        """Whether there was progress since the start began, without a query: a supervisor goes by that."""
        beat = HEARTBEAT_FILE.of(stage.stream_home).read()
        if beat is not None and beat.phase is Phase.STARTING and beat.lineage is None and beat.progress_at is not None:
            steps.add(beat.progress_at)
        return len(steps) > 1

    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(has_stepped, "a step of its start")
        driver.wait_for(lambda: bool(stage.lineage and CheckpointLog(stage.checkpoint).committed()), "a first batch")
        assert driver.jvm
        mapped = Path(f"/proc/{driver.jvm}/maps").read_text()
        commands = [command_of(child) for child in psutil.Process(driver.jvm).children()]
    # mapped means accepted: one that does not fit the class path is closed again
    assert str(class_archive(jar_folder())) in mapped
    assert [command[1:3] for command in commands if "-m" in command] == [["-m", "pyspark.daemon"]]


def test_executors_like_ours_leave_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    require_fit_executors(spark, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ExecutorsUnfit, match="Mkdirs failed"):
        require_fit_executors(spark, Path("/proc/nothing"))


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("pythonExec", "/nowhere/python", "no program /nowhere/python"),
        ("pythonVer", "3.9", r"their Python is 3\.11, the driver's is 3\.11"),
    ],
)
def test_another_python_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, said: str
) -> None:
    monkeypatch.setattr(spark.sparkContext, setting, value)
    with pytest.raises(ExecutorsUnfit, match=said):
        require_fit_executors(spark, tmp_path)


def test_a_python_without_packages_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(ExecutorsUnfit) as raised:
        require_fit_executors(spark, tmp_path)
    assert [package for package in executors.NEEDED if package in raised.value.cause] == ["pyarrow", "pandas", "numpy"]


def test_an_executor_is_named_with_all_that_it_lacks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "NEEDED", ("pyarrow", "no_such_package", "no.such.child"))
    with pytest.raises(ExecutorsUnfit, match=r"lacks no_such_package, no\.such\.child$") as raised:
        require_fit_executors(spark, tmp_path)
    assert raised.value.host == os.uname().nodename


IMPORTED = 40_000
"""Objects, at least. One that has packed has 54,000, an empty Python 7,000; none are frozen unasked."""


def test_a_worker_that_has_packed_has_its_imports_frozen(spark: SparkSession) -> None:
    pack = packer([], key_groups=4)

    def pack_and_look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            assert list(pack(iter(()))) == []
            yield pa.record_batch([pa.array([gc.get_freeze_count()])], names=["frozen"])

    [seen] = spark.range(1, numPartitions=1).mapInArrow(pack_and_look, "frozen bigint").collect()
    assert seen.frozen > IMPORTED


@pytest.mark.long
def test_an_arabic_driver_names_files_in_ascii_digits_and_tells_of_folders_that_it_does_not_look_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Duser.language=ar -Duser.country=EG")
    monkeypatch.setenv("LC_ALL", "ar_EG.UTF-8")
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=10))
    (stage.feed / "café.json").write_bytes(line(1, "ann"))
    (stage.feed / "2024").mkdir()
    (stage.feed / "2024" / "a.json").write_bytes(line(2, "ann"))
    run_to_end(stage, "a")
    logs = [entry.name for entry in opened(stage.table("sessions") / "_delta_log").iterdir()]
    assert f"{0:020}.json" in logs
    assert all(name.isascii() for name in logs)
    assert [(row["key"], row["event_count"]) for row in table_rows(stage.table("sessions"))] == [("ann", 1)]
    assert (stage.root / "driver-a.log").read_text(encoding="utf-8").count("source's folder: 2024") == 1


def test_it_is_due_once_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed: list[str] = []

    def rehearse(spark: SparkSession, location: str) -> None:
        rehearse_checkpoint(spark, location)
        assert list(Path(location, "_delta_log").glob("*.checkpoint*.parquet")), "every commit comes with a checkpoint"
        assert spark.read.format("delta").load(location).count() == 2
        rehearsed.append(location)

    monkeypatch.setattr("sessionizer.spark.driver.housekeeping.rehearse_checkpoint", rehearse)
    folder = tmp_path / "rehearsal"
    (folder / "left by a driver that was killed").mkdir(parents=True)
    rehearsal = Rehearsal(spark, folder)
    assert [rehearsal.is_due(batches) for batches in (0, AFTER_BATCHES - 1, AFTER_BATCHES)] == [False, False, True]
    rehearsal.end()  # of a driver that ends before
    assert not rehearsed
    rehearsal.begin()
    assert not rehearsal.is_due(AFTER_BATCHES)
    eventually(lambda: rehearsed)  # a driver that ends does not wait for all of it on a slow machine
    rehearsal.end()
    assert rehearsed == [str(folder)]
    assert not folder.exists()


@pytest.mark.parametrize(
    "error", [PrivateDoorBroken("Delta's log", "it moved"), OSError("gone"), PySparkException("failed")], ids=repr
)
def test_one_that_fails_says_nothing_and_is_not_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What a thread raises is told by Python, and fails the test."""
    monkeypatch.setattr("sessionizer.spark.driver.housekeeping.rehearse_checkpoint", Mock(side_effect=error))
    rehearsal = Rehearsal(spark, tmp_path / "rehearsal")
    rehearsal.begin()
    rehearsal.end()
    assert not rehearsal.is_due(AFTER_BATCHES)


@pytest.mark.long
def test_a_driver_does_it_when_it_has_caught_up_and_goes_on(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    write_click_files(stage.feed, AFTER_BATCHES)
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: stage.lineage is not None, "a lineage")
        folder = stage.checkpoint.parent / "rehearsal"
        driver.wait_for(opened(folder / "_delta_log" / f"{1:020}.json").exists, "a rehearsal")
        assert len(CheckpointLog(stage.checkpoint).committed()) >= AFTER_BATCHES
        driver.wait_for(lambda: not opened(folder).exists(), "its end")
        request_stop(stage.stream_home, "a", "a test")
        assert driver.wait() == 0


GROUPS = 16


@pytest.mark.parametrize("partitions", [2, 8])
def test_every_partition_gets_as_many_groups(spark: SparkSession, partitions: int) -> None:
    labels = spark.createDataFrame([(label,) for label in group_labels(GROUPS).tolist()], "key_group int")
    placed = labels.repartition(partitions, "key_group").groupBy(F.spark_partition_id()).count().collect()
    assert [row["count"] for row in placed] == [GROUPS // partitions] * partitions
