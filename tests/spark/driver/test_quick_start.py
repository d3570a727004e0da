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
from support.processes.ports import command_of
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


def test_executors_like_ours_leave_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    require_fit_executors(spark, tmp_path)
    assert list(tmp_path.iterdir()) == []


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


def test_a_python_that_is_not_there_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    with pytest.raises(ExecutorsUnfit, match="no program /nowhere/python"):
        require_fit_executors(spark, tmp_path)


def test_another_python_is_told(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.9")
    with pytest.raises(ExecutorsUnfit, match=r"their Python is 3\.11, the driver's is 3\.11"):
        require_fit_executors(spark, tmp_path)


def test_a_folder_that_cannot_be_written_is_told(spark: SparkSession) -> None:
    with pytest.raises(ExecutorsUnfit, match="Mkdirs failed"):
        require_fit_executors(spark, Path("/proc/nothing"))


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


@pytest.fixture(scope="module")
def arabic() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", "-Duser.language=ar -Duser.country=EG")
        patched.setenv("LC_ALL", "ar_EG.UTF-8")
        yield patched


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, arabic: pytest.MonkeyPatch) -> Stage:
    """Return a stream that a driver has read to its end."""
    its = Stage.set_up(tmp_path_factory.mktemp("arabic"), clicks_spec(files_per_batch=10))
    (its.feed / "café.json").write_bytes(line(1, "ann"))
    (its.feed / "2024").mkdir()
    (its.feed / "2024" / "a.json").write_bytes(line(2, "ann"))
    run_to_end(its, "a")
    return its


@pytest.mark.long
def test_the_files_of_a_table_are_named_in_ascii_digits(stage: Stage) -> None:
    logs = [entry.name for entry in opened(stage.table("sessions") / "_delta_log").iterdir()]
    assert f"{0:020}.json" in logs
    assert all(name.isascii() for name in logs)
    assert [(row["key"], row["event_count"]) for row in table_rows(stage.table("sessions"))] == [("ann", 1)]


@pytest.mark.long
def test_a_driver_tells_of_folders_that_it_does_not_look_into(stage: Stage) -> None:
    said = (stage.root / "driver-a.log").read_text(encoding="utf-8")
    assert said.count("source's folder: 2024") == 1


def test_every_commit_of_its_table_comes_with_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    rehearse_checkpoint(spark, str(tmp_path / "table"))
    assert list((tmp_path / "table" / "_delta_log").glob("*.checkpoint*.parquet"))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 2


def test_it_is_due_once_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed: list[str] = []

    def rehearse(spark: SparkSession, location: str) -> None:
        rehearse_checkpoint(spark, location)
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
