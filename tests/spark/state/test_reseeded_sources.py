"""The source of a reseeded stream goes on where it stood: the tables are those of a twin that was never interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.checkpoint.batch_logs import read_last_commit, read_planned_batch
from sessionizer.checkpoint.names import EVENTS
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.stream_spec.decisions import document_of
from support.expected.landed import landed
from support.processes.in_process import catch_up, drain
from support.streams.brought_rows import brought_to_delta, brought_to_kafka
from support.streams.click_files import known_rows
from support.streams.stage import Stage, clicks_spec
from support.verbs.reseeded_stream import reseed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.processes.kafka_broker import KafkaBroker
    from support.streams.brought_rows import Brought

ROWS = 600
PARTS = 3


@pytest.fixture
def kafka(kafka_broker: KafkaBroker, kafka_topic: str) -> Brought:
    return brought_to_kafka(kafka_broker, kafka_topic)


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Brought:
    return brought_to_delta(spark, tmp_path)


def stream_of(source: dict[str, Any], root: Path) -> Stage:
    """A stream over the source, which has not read anything yet."""
    stage = Stage.set_up(root, {**clicks_spec(), "source": source})
    stage.stream_home.prepare()
    start_lineage(stage.stream_home, spec=LineageSpec(document_of(stage.spec())))
    return stage


@pytest.mark.long
@pytest.mark.parametrize("kind", ["kafka", "delta"])
def test_the_source_goes_on_where_it_stood(
    spark: SparkSession, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    source, bring = request.getfixturevalue(kind)
    moved, steady = stream_of(source, tmp_path / "moved"), stream_of(source, tmp_path / "steady")
    rows = known_rows(ROWS)
    size = ROWS // PARTS
    for part in range(PARTS):
        bring(rows[part * size : (part + 1) * size])
        if part:
            before = read_planned_batch(moved.checkpoint, read_last_commit(moved.checkpoint) or 0).ends[EVENTS]
            moved.write_spec({**clicks_spec(), "source": source, "key_groups": 4 + part})
            reseed(spark, moved, partitions=1 + part)
            assert read_planned_batch(moved.checkpoint, 0).ends[EVENTS] == before
        for stage in (moved, steady):
            catch_up(spark, stage)
    for stage in (moved, steady):
        drain(spark, stage)
    expected = landed(steady)
    assert expected.sessions
    assert expected.late
    assert landed(moved) == expected
