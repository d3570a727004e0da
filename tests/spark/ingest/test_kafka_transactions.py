"""Records of aborted transactions are no events, and the gaps that transactions leave in the offsets do no harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.spark.state.lineages.source_beginning import unread_of
from sessionizer.state.lineages.committed_batch import read_committed_batch
from support.expected.landed import table_rows
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage
from support.streams.transactions import click, topic_spec, transaction
from support.verbs.reseeded_stream import reseed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.processes.kafka_broker import KafkaBroker


def sessions(stage: Stage) -> dict[str, list[str]]:
    """By user, the ids of the events of each session."""
    rows: list[dict[str, Any]] = table_rows(stage.table("sessions"))
    return {row["key"]: sorted(event["event_id"] for event in row["events"]) for row in rows}


def unread(spark: SparkSession, stage: Stage) -> int | None:
    return unread_of(spark, stage.spec().source, stage.home, read_committed_batch(stage.stream_home)).items


def test_an_aborted_transaction_brings_no_event(
    spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    """Offsets: c1 c2 marker x y marker c3 marker; the last of them is a marker, which no record reaches."""
    stage = Stage.begun(tmp_path, topic_spec(kafka_broker, kafka_topic))
    transaction(kafka_broker, kafka_topic, [click("u1", "c1", 0), click("u1", "c2", 5)], commit=True)
    aborted = [click("u1", "x", 8), click("ghost", "y", 8)]
    transaction(kafka_broker, kafka_topic, aborted, commit=False)
    catch_up(spark, stage)
    assert unread(spark, stage) == 0
    reseed(spark, stage)
    assert unread(spark, stage) == 0
    transaction(kafka_broker, kafka_topic, [click("u1", "c3", 10)], commit=True)
    assert unread(spark, stage) == 2
    drain(spark, stage)
    assert sessions(stage) == {"u1": ["c1", "c2", "c3"]}


@pytest.mark.long
def test_whoever_wants_uncommitted_records_gets_them(
    spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    spec = topic_spec(kafka_broker, kafka_topic, **{"kafka.isolation.level": "read_uncommitted"})
    stage = Stage.begun(tmp_path, spec)
    transaction(kafka_broker, kafka_topic, [click("ghost", "y", 8)], commit=False)
    drain(spark, stage)
    assert sessions(stage) == {"ghost": ["y"]}
