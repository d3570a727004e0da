"""A client whose clock is ahead keeps its own times, and makes the events of nobody else late."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from sessionizer.spark.ingest import punctuation
from support.expected.landed import epoch_ms, table_rows
from support.faults.bad_clicks import click
from support.processes.in_process import catch_up
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MINUTE_MS = 60_000


@pytest.mark.long
def test_a_clock_within_the_tolerance_ahead_makes_nobody_late(spark: SparkSession, tmp_path: Path) -> None:
    """At the defaults: ten minutes of delay, and as much of tolerance."""
    stage = Stage.set_up(tmp_path, clicks_spec(watermark_delay="10 minutes", gap_timeout="30 minutes"))
    now_ms = int(time.time() * 1000)
    ahead_ms = now_ms + 9 * MINUTE_MS
    on_time = [click(number, "bob", ts=now_ms - 9 * MINUTE_MS + 1_000 * number) for number in range(190)]
    batches = [[click(1, "ann", ts=ahead_ms, type="logout")], on_time]
    for number, clicks in enumerate(batches):
        (stage.feed / f"{number}.json").write_text("\n".join(json.dumps(columns) for columns in clicks))
    catch_up(spark, stage)
    assert len(table_rows(stage.table("late_events"))) == 0

    # her session ends where her clock says, once time has come there by the clocks of others: here by hand
    (stage.feed / "2.json").write_text(json.dumps(click(200, "bob", ts=now_ms + MINUTE_MS)))
    catch_up(spark, stage)
    assert table_rows(stage.table("sessions")) == []
    punctuate(stage, ahead_ms + MINUTE_MS)
    catch_up(spark, stage)
    (session,) = table_rows(stage.table("sessions"))
    assert (session["key"], epoch_ms(session["started_at"])) == ("ann", ahead_ms)


def punctuate(stage: Stage, floor_ms: int) -> None:
    assert stage.lineage
    punctuation.move_watermark(stage.stream_home.punctuations(stage.lineage), floor_ms)
