"""What is the same in each batch: the code that Spark generates, the clock in a replay, what an append reads."""

import json
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

from sessionizer.fleet.streams import one_stream
from sessionizer.spark.ingest.guard import BatchClock
from sessionizer.spark.ingest.source import read_guarded_source, read_source
from sessionizer.spark.query.assembly import session_query
from sessionizer.stream_spec.document.stream import StreamSpec
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import table_rows
from support.faults.bad_clicks import START_MS, click
from support.faults.spoiled_streams import CLICKS, DELTA_CLICKS
from support.processes.driver_process import run_to_end
from support.streams.stage import Stage

EPOCH_MS = 1_767_225_600_000
EVENT_BYTES = 100_000


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    (folder := tmp_path / "in").mkdir()
    source = {"format": "files", "path": str(folder), "encoding": "json", "columns": "k string, t bigint"}
    mapping = {"key": "k", "event_id": "t", "event_time": "timestamp_millis(t)"}
    one_by_one = {**source, "options": {"maxFilesPerTrigger": "1"}}
    return StreamSpec.model_validate({"name": "s", "source": one_by_one, "mapping": mapping})


@pytest.fixture
def five_files(tmp_path: Path, spec: StreamSpec) -> None:
    for second in range(5):
        (tmp_path / "in" / f"{second}.json").write_text(f'{{"k": "a", "t": {EPOCH_MS + second * 1000}}}\n')


@pytest.mark.usefixtures("five_files")
def test_no_batch_after_the_second_has_code_of_its_own(spark: SparkSession, spec: StreamSpec, tmp_path: Path) -> None:
    (punctuations := tmp_path / "punctuations").mkdir()
    metrics = cast("Any", spark.sparkContext._jvm).org.apache.spark.metrics.source.CodegenMetrics
    compiled: list[int] = []

    def evaluate(emitted: DataFrame, _: int) -> None:
        emitted.collect()
        compiled.append(metrics.METRIC_COMPILATION_TIME().getCount())

    query = session_query(spark, spec, read_guarded_source(spark, spec, tmp_path), punctuations)
    query.start(evaluate, tmp_path / "checkpoint", every_ms=None).awaitTermination()
    assert len(compiled) >= 5
    assert compiled[4] == compiled[1]


def test_an_append_reads_nothing_of_the_log_that_it_is_appended_to(
    spark: SparkSession, spec: StreamSpec, tmp_path: Path
) -> None:
    mapping = {**spec.mapping.model_dump(exclude_unset=True), "payload": {"text": "v"}}
    source = {**spec.source.model_dump(exclude_unset=True), "columns": "k string, t bigint, v string"}
    spec = StreamSpec.model_validate({"name": "s", "source": source, "mapping": mapping})
    for second in range(5):
        event = {"k": "a", "t": EPOCH_MS + second * 1000, "v": token_hex(EVENT_BYTES // 2)}
        (tmp_path / "in" / f"{second}.json").write_text(f"{json.dumps(event)}\n")
    (punctuations := tmp_path / "punctuations").mkdir()
    query = session_query(spark, spec, read_guarded_source(spark, spec, tmp_path), punctuations)
    running = query.start(lambda emitted, _: emitted.foreach(print), tmp_path / "checkpoint", every_ms=None)
    running.awaitTermination()
    read = [batch.stateOperators[0].customMetrics["rocksdbTotalBytesRead"] for batch in running.recentProgress]
    assert len(read) >= 5
    assert max(read[:5]) < EVENT_BYTES // 2  # the log is a multiple of it, and Zstandard takes at most half


@pytest.mark.usefixtures("five_files")
def test_a_replayed_batch_has_the_clock_it_had(spark: SparkSession, spec: StreamSpec, tmp_path: Path) -> None:
    log = CheckpointLog(tmp_path / "checkpoint")
    clock = BatchClock(None)
    read = read_source(spark, spec.source, tmp_path, 1000, stream=True)
    rows = clock.add_clock(read).select(clock.now_ms.alias("now_ms"))
    seen: list[tuple[int, int]] = []

    def look(batch: DataFrame, batch_id: int) -> None:
        seen.extend((batch_id, row.now_ms) for row in batch.collect())

    writer = rows.writeStream.foreachBatch(look).option("checkpointLocation", str(log.location))
    writer.trigger(availableNow=True).start().awaitTermination()
    log.forget_last_commit()
    writer.trigger(availableNow=True).start().awaitTermination()
    assert seen == [(batch.batch_id, batch.at_ms) for batch in [*log.begun(), log.begun()[-1]]]


def test_a_batch_that_waits_for_an_executor_does_not_fail_for_its_clock(spark: SparkSession) -> None:
    """A query with state waits for a broadcast so many seconds, and then ends. Below 0 it waits as long as it takes."""
    assert int(cast("str", spark.conf.get("spark.sql.broadcastTimeout"))) < 0


HOUR_MS = 3_600_000
USERS, HOURS = 4, 24
BEGIN_MS = START_MS - HOURS * HOUR_MS


@pytest.mark.long
def test_a_table_of_a_file_for_each_user_is_told_of(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, DELTA_CLICKS)
    for user in range(USERS):
        clicks = [click(hour, f"user-{user}", ts=BEGIN_MS + hour * HOUR_MS) for hour in range(HOURS)]
        write_deltalake(stage.feed, pa.Table.from_pylist(clicks, CLICKS), mode="append")
    said = run_to_end(stage, "a", until="caught-up")
    late = len(table_rows(stage.table("late_events")))
    assert late > HOURS
    told = f"{late} of the first {USERS * HOURS} events"
    command = f"`sessionizer seed {stage.name} --history source --backfill --start-over`"
    assert [command in line for line in said.splitlines() if "came late" in line] == [True]
    view = one_stream(stage.home, stage.streams, stage.name)
    assert told in (view.late_backlog or "")
    assert view.to_json()["late_backlog"] == view.late_backlog
