"""Each door opens in this Spark; one that leads nowhere says which it was; the public way needs none."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import copyfile
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.errors import PrivateDoorBroken
from sessionizer.launch.driver_environment import PLAIN_SPARK
from sessionizer.spark.driver.query_watch import jvm_of_this_process
from sessionizer.spark.internals import (
    delta_append,
    delta_log,
    kafka_admin,
    own_jvm,
    planned_batches,
    state_socket,
    task_counts,
    trying,
)
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.spark.internals.own_jvm import UNTOLD, pass_on
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.places import REPOSITORY, opened
from support.processes.driver_process import run_to_end
from support.processes.in_process import catch_up, deliver_events, drain
from support.streams.stage import Stage, clicks_spec

ABSURD = 2**62


def write(spark: SparkSession, table: Path, version: int) -> int | None:
    batch = delta_append.Transaction("lineage", version)
    return delta_append.write_once(spark.range(2), str(table), batch, lambda: None)


def open_trying(spark: SparkSession, _: Path) -> None:
    rows = spark.createDataFrame([(1,), (ABSURD,)], "s bigint")
    tried = rows.select(trying.try_expression(rows, "timestamp_seconds(s)").isNull().alias("failed"))
    assert [row.failed for row in tried.collect()] == [False, True]


def open_append(spark: SparkSession, table: Path) -> None:
    spark.range(0).write.format("delta").save(str(table))
    assert write(spark, table, 3) == 1


def open_log(spark: SparkSession, table: Path) -> None:
    writer = spark.range(1).write.format("delta").option("txnAppId", "lineage").option("txnVersion", 3)
    writer.save(str(table))
    assert delta_log.last_version(spark, str(table), "lineage") == 3
    assert delta_log.last_versions(spark, str(table)) == {"lineage": 3}
    assert delta_log.table_property(spark, str(table), "nothing") is None
    detail = spark.sql(f"describe detail delta.`{table}`").collect()[0]
    assert delta_log.table_id(spark, str(table)) == detail.id
    assert delta_log.table_id(spark, f"{table}-of-nobody") is None


def open_admin(spark: SparkSession, _: Path) -> None:
    """No broker answers there, which Kafka's client says itself."""
    bounds = dict.fromkeys(("default.api.timeout.ms", "request.timeout.ms"), "500")
    with pytest.raises(JavaError, match="TimeoutException"):
        kafka_admin.describe_topics(spark, {"bootstrap.servers": "127.0.0.1:1", **bounds}, ["clicks"])
    with pytest.raises(JavaError, match="TimeoutException"):
        kafka_admin.earliest_offsets(spark, {"bootstrap.servers": "127.0.0.1:1", **bounds}, ["clicks-0"])


def open_counts(spark: SparkSession, _: Path) -> None:
    spark.sparkContext.setJobGroup("counted", "")
    spark.range(1000).repartition(2).collect()
    deliver_events(spark)
    tracker = spark.sparkContext.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("counted"))
    stages = [stage for job in jobs if job for stage in job.stageIds]
    found = [known for stage in stages if (known := task_counts.records_of_stage(spark, stage)) is not None]
    assert any(1000 in known for known in found)
    assert task_counts.records_of_stage(spark, 1_000_000) is None


def open_planned(spark: SparkSession, folder: Path) -> None:
    """A query that began with a planned batch runs two more, though its source has nothing new."""
    source, offsets = folder / "source", folder / "checkpoint" / "offsets"
    source.mkdir(parents=True)
    (source / "lines.txt").write_text("one")
    seen: list[int] = []
    broken: list[PrivateDoorBroken] = []

    def plan_next() -> bool:
        is_planned = len(seen) < 3
        if is_planned:
            copyfile(offsets / "0", offsets / str(len(seen) + 1))
        return is_planned

    def follow(_: DataFrame, batch_id: int) -> None:
        if not seen:
            try:
                planned_batches.follow_offset_log(spark, plan_next)
            except PrivateDoorBroken as error:
                broken.append(error)
                raise
        seen.append(batch_id)

    for take, trigger in ((lambda *_: None, {"availableNow": True}), (follow, {"processingTime": "0 seconds"})):
        writer = spark.readStream.text(str(source)).writeStream.foreachBatch(cast("Any", take))
        if take is follow:
            plan_next()
        with suppress(StreamingQueryException):
            checkpointed = writer.option("checkpointLocation", str(folder / "checkpoint"))
            checkpointed.trigger(**cast("Any", trigger)).start().awaitTermination()
    if broken:
        raise broken[0]
    assert seen == [1, 2, 3]


DOORS: dict[ModuleType, Callable[[SparkSession, Path], None]] = {
    trying: open_trying,
    delta_append: open_append,
    delta_log: open_log,
    kafka_admin: open_admin,
    task_counts: open_counts,
    planned_batches: open_planned,
}
LEADS_THROUGH = {
    trying: "catalyst", delta_append: "java_class", delta_log: "java_class", kafka_admin: "java_class",
    planned_batches: "scala_object",
}  # fmt: skip
"""What each door reaches the JVM's classes by."""


def name_of(door: ModuleType) -> str:
    return door.__name__.rpartition(".")[2]


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize("door", DOORS, ids=name_of)
def test_the_door_opens_in_this_spark(spark: SparkSession, tmp_path: Path, door: ModuleType) -> None:
    DOORS[door](spark, tmp_path / "table")


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize("door", LEADS_THROUGH, ids=name_of)
def test_a_class_that_has_moved_is_told_with_its_door(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: ModuleType
) -> None:
    way = getattr(door, LEADS_THROUGH[door])

    def moved(session: SparkSession, name: str) -> Any:
        return way(session, f"{name}ThatHasMoved")

    monkeypatch.setattr(door, LEADS_THROUGH[door], moved)
    with pytest.raises(PrivateDoorBroken) as caught:
        DOORS[door](spark, tmp_path / "table")
    assert caught.value.door == door.DOOR
    assert "hasmoved" in caught.value.missing.lower()


@pytest.mark.usefixtures("tuned")
def test_a_member_that_has_moved_is_told_with_its_door(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = cast("Any", SimpleNamespace(sparkContext=SimpleNamespace()))
    gone: dict[ModuleType, Callable[[], Any]] = {
        task_counts: lambda: task_counts.records_of_stage(nobody, 1),
        state_socket: lambda: state_socket.answer_within(nobody, 1.0),
        own_jvm: lambda: own_jvm.end_jvm(1.0),
    }
    monkeypatch.delattr(SparkContext, "_gateway")
    for door, use in gone.items():
        with pytest.raises(PrivateDoorBroken) as caught:
            use()
        assert caught.value.door == cast("Any", door).DOOR
    assert own_jvm.exit_code_of_jvm(1.0) is None


def test_the_public_way_needs_no_door(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLAIN_SPARK, "1")
    for door, through in LEADS_THROUGH.items():
        monkeypatch.delattr(door, through)
    open_trying(spark, tmp_path)
    open_log(spark, table := tmp_path / "table")
    assert write(spark, table, 3) is None
    assert task_counts.records_of_stage(spark, 0) is None


@pytest.mark.parametrize(
    "sql",
    [
        "coalesce(timestamp_seconds(s), timestamp '2000-01-01')", "if(s > 9, raise_error('no'), s)",
        "array(timestamp_seconds(s))", "struct(timestamp_seconds(s))", "map('a', timestamp_seconds(s))",
        "map_from_arrays(array(1), sequence(1, s % 3))",
        "encode(cast(timestamp_seconds(s) as string), 'utf-8')", "s.s",
    ],
)  # fmt: skip
def test_both_ways_try_alike(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    rows = spark.createDataFrame([(1,), (ABSURD,), (None,)], "s bigint")
    rows = rows.select(F.struct("s").alias("s")) if sql == "s.s" else rows
    found = []
    for value in ("0", "1"):
        monkeypatch.setenv(PLAIN_SPARK, value)
        found.append(rows.select(trying.try_expression(rows, sql).alias("tried")).collect())
    assert found[0] == found[1]


def test_a_plain_spark_knows_its_transactions_from_checkpoints_and_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLAIN_SPARK, "1")
    spark.sql(f"create table delta.`{tmp_path}/t` (id bigint) using delta tblproperties "
              "('delta.checkpointInterval' = '3', 'sessionizer.owner' = 'me')")  # fmt: skip
    table = tmp_path / "t"
    assert delta_log.last_version(spark, str(table), "lineage") == -1
    for version in range(5):
        assert write(spark, table, version) == version + 1
        assert delta_log.last_version(spark, str(table), "lineage") == version
    for old in range(3):
        (table / "_delta_log" / f"{old:020}.json").unlink()
    assert delta_log.last_version(spark, str(table), "lineage") == 4
    assert delta_log.last_versions(spark, str(table)) == {"lineage": 4}
    assert delta_log.table_property(spark, str(table), "sessionizer.owner") == "me"
    assert delta_log.table_property(spark, str(tmp_path / "none"), "sessionizer.owner") is None
    assert delta_log.last_versions(spark, str(tmp_path / "none")) == {}


def test_the_jvm_of_a_program_is_found(spark: SparkSession) -> None:
    jvm = cast("Any", spark.sparkContext._jvm)
    assert jvm_of_this_process() == jvm.java.lang.ProcessHandle.current().pid()


def test_a_stream_goes_on_the_other_way(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = clicks_spec()
    spec["measures"] = {"spent": "coalesce(sum(amount) filter (where page = '/cart'), 0.0)", "pages": "count(page)"}
    stage = Stage.set_up(tmp_path, spec)
    for number, plain in enumerate("01"):
        monkeypatch.setenv(PLAIN_SPARK, plain)
        clicks = [line(number * 10 + second, "ann") for second in range(3)]
        ended = line(number * 10, f"user-{number}", type="logout")
        bad = line(0, ts=2**62, user_id=None)
        (stage.feed / f"{number}.json").write_bytes(b"\n".join([*clicks, ended, bad]))
        catch_up(spark, stage)
    drain(spark, stage)
    rows = table_rows(stage.table("sessions"))
    found = {row["key"]: (row["event_count"], row["spent"], row["pages"]) for row in rows}
    assert found == {"ann": (6, 9.0, 6)} | {f"user-{number}": (1, 1.5, 1) for number in range(2)}
    assert len(table_rows(stage.table("quarantine"))) == 2
    assert table_rows(stage.table("late_events")) == []


@pytest.mark.long
@pytest.mark.parametrize("turns", ["010", "101"])
def test_drivers_take_up_a_checkpoint_of_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: str
) -> None:
    """Hadoop's checksums are beside the files of the one way, and not beside those of the other."""
    stage = Stage.set_up(tmp_path, clicks_spec())
    checked: dict[str, tuple[str, bool]] = {}
    for number, plain in enumerate(turns):
        monkeypatch.setenv(PLAIN_SPARK, plain)
        (stage.feed / f"{number}.json").write_bytes(line(number * 10, "ann"))
        run_to_end(stage, f"turn-{number}", "drained" if number == len(turns) - 1 else "caught-up")
        for offsets in (file for file in opened(stage.checkpoint / "offsets").iterdir() if file.name.isdecimal()):
            checked.setdefault(offsets.name, (plain, offsets.with_name(f".{offsets.name}.crc").exists()))
    assert set(checked.values()) == {("0", True), ("1", False)}
    assert [row["event_count"] for row in table_rows(stage.table("sessions"))] == [3]


PROGRAM = """
import os
from pyspark.sql import SparkSession
from sessionizer.spark.internals.task_counts import records_of_stage

builder = SparkSession.builder.master("local[1]").config("spark.ui.port", "0").config("spark.ui.enabled", "true")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
os.environ["SESSIONIZER_PLAIN_SPARK"] = "1"
while records_of_stage(spark, 0) is None:  # the pages take longer than a driver's patience to answer the first time
    if spark.sparkContext.statusTracker().getStageInfo(0) is None:
        spark.range(1).collect()
first = 1 + max(stage for stage in range(9) if spark.sparkContext.statusTracker().getStageInfo(stage))
spark.range(1000).repartition(2).write.format("noop").mode("overwrite").save()
found = {}
for plain in "01":
    os.environ["SESSIONIZER_PLAIN_SPARK"] = plain
    found[plain] = [records_of_stage(spark, stage) for stage in range(first, first + 3)]
assert found["0"] == found["1"], found
assert sum(1000 in known for known in found["1"] if known) >= 2, found
print(records_of_stage(spark, 1_000_000))
spark.stop()
"""


@pytest.mark.long
def test_both_ways_count_alike() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "None"


QUIET_PROGRAM = """
import sys
from sessionizer.spark.session import spark_session
spark = spark_session("quiet", "local[1]")
spark.sparkContext._jvm.java.lang.System.err.println("a warning of Spark")
print(spark.sparkContext.appName, spark.range(3).count())
spark.stop()
"""


def started(**settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "jobs")} | settings
    return subprocess.run(
        [sys.executable, "-c", QUIET_PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("plain", ["", "1"])
def test_a_command_prints_what_the_jvm_prints_without_the_lines_of_every_start(plain: str) -> None:
    found = started(**{PLAIN_SPARK: plain})
    assert (found.returncode, found.stdout) == (0, "quiet 3\n")
    assert "a warning of Spark\n" in found.stderr
    assert (UNTOLD[0].decode() in found.stderr) == bool(plain)


def test_the_last_lines_of_a_jvm_that_does_not_start_are_printed() -> None:
    found = started(JAVA_TOOL_OPTIONS="-XX:NoSuchOption")
    assert found.returncode != 0
    assert "NoSuchOption" in found.stderr
    assert "JvmNotStarted" in found.stderr


def test_an_empty_line_goes_only_with_the_line_before_it(capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"one\n\n" + UNTOLD[1] + b"\n\n\ntwo\n" + UNTOLD[0] + b"jdk.incubator.vector\nthree")
    os.close(writer)
    pass_on(reader)
    assert capfd.readouterr().err == "one\n\ntwo\nthree"
