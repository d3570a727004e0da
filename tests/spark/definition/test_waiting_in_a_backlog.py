"""A backlog through Spark: every second batch merges, the same ones in a replay, and nothing waits at its end."""

import os
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionizer.core.wire import rows
from sessionizer.spark.ingest.source import read_guarded_source
from sessionizer.spark.query.assembly import session_query
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import table_rows
from support.faults.bad_clicks import START_MS, line
from support.processes.in_process import catch_up
from support.streams.stage import Stage, clicks_spec

FIVE_MINUTES = 300
"""In clicks, which are a second apart: far more than the gap, the delay and the step of emission together."""


def stage_with_backlog(root: Path, files: int) -> Stage:
    stage = Stage.set_up(root, clicks_spec(files_per_batch=1) | {"key_groups": 1})
    for number in range(files):
        file = stage.feed / f"{number}.json"
        file.write_bytes(line(number * FIVE_MINUTES, f"user-{number}"))
        os.utime(file, (number, number))  # Spark reads the oldest first
    return stage


def test_what_waits_in_a_backlog_comes_out_with_the_next_batch(spark: SparkSession, tmp_path: Path) -> None:
    stage = stage_with_backlog(tmp_path, files=6)

    catch_up(spark, stage)

    batch_of = {row["key"]: row["batch_id"] for row in table_rows(stage.table("sessions"))}
    # the sixth batch has the last data, the seventh has none; nobody can tell yet that the sixth user is gone
    assert batch_of == {"user-0": 2, "user-1": 4, "user-2": 4, "user-3": 6, "user-4": 6}


@pytest.mark.long
def test_a_replay_goes_by_the_clock_that_the_batch_had(spark: SparkSession, tmp_path: Path) -> None:
    """By today's clock the batch is one of a backlog; by that of its log, told otherwise here, it is up to date."""
    stage = stage_with_backlog(tmp_path, files=4)
    (punctuations := tmp_path / "punctuations").mkdir()
    log = CheckpointLog(tmp_path / "checkpoint")
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    merged: list[int] = []

    def look(emitted: DataFrame, batch_id: int) -> None:
        merged.extend([batch_id] * any(row.kind == rows.SESSIONS for row in emitted.collect()))

    def run() -> None:
        guarded = read_guarded_source(session, stage.spec(), stage.home)
        query = session_query(session, stage.spec(), guarded, punctuations)
        query.start(look, log.location, every_ms=None).awaitTermination()

    run()
    assert merged == [2]
    log.forget_last_commit()
    log.set_clock(3, START_MS + 3 * FIVE_MINUTES * 1_000)
    run()
    assert merged == [2, 3]
