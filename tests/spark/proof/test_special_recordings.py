"""Recordings that are harder to replay: a topic, an arrival clock, a running stream, rows that are gone or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable

from sessionizer.checkpoint.batch_logs import list_committed_batches, read_last_commit
from sessionizer.deployment.running_spec import new_record
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, ExcludedRange, ExcludedRanges
from sessionizer.lineage.kept_spec import write_lineage_spec
from sessionizer.spark.proof.prove import ProofRequest, prove_by_replay
from sessionizer.state.proof.comparison import DifferenceKind
from sessionizer.state.proof.result import ProofVerdict
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from support.processes.driver_process import DriverProcess
from support.processes.in_process import catch_up
from support.streams.click_files import known_rows, write_click_files
from support.streams.kafka_clicks import kafka_spec, produce
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.state.proof.result import Proof
    from support.processes.kafka_broker import KafkaBroker

pytestmark = pytest.mark.long


def caught_up(spark: SparkSession, stage: Stage) -> Stage:
    catch_up(spark, stage)
    assert stage.lineage
    write_lineage_spec(stage.stream_home, stage.lineage, new_record(stage.stream_home, stage.spec()))
    return stage


def proved(spark: SparkSession, stage: Stage, **asked: Any) -> Proof:
    return prove_by_replay(spark, stage.stream_home, stage.spec(), ProofRequest(**asked))


def assert_equal(proof: Proof) -> None:
    assert proof.verdict is ProofVerdict.EQUAL, list(proof.lines())
    assert proof.tables[0].identical > 0


def test_batches_of_a_topic(spark: SparkSession, kafka_broker: KafkaBroker, kafka_topic: str, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, kafka_spec(kafka_broker.bootstrap_servers, kafka_topic))
    rows = known_rows(900)
    produce(kafka_broker, kafka_topic, rows[:600])
    caught_up(spark, stage)
    produce(kafka_broker, kafka_topic, rows[600:])
    caught_up(spark, stage)
    produce(kafka_broker, kafka_topic, known_rows(50))  # that no batch has read: nor does a replay
    proof = proved(spark, stage, batches=50)
    assert_equal(proof)
    assert proof.events + 200 >= len(rows)
    assert proof.events < len(rows)


def test_batches_on_an_arrival_clock(spark: SparkSession, tmp_path: Path) -> None:
    spec = clicks_spec(time_mode="processing_time", idle_after=None, gap_timeout="2 seconds", max_events=20)
    stage = Stage.set_up(tmp_path, spec)
    write_click_files(stage.feed, 6, rate=12)
    assert_equal(proved(spark, caught_up(spark, stage), batches=50))


def test_a_file_that_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path, clicks_spec())
    write_click_files(stage.feed, 5, rate=12)
    uris = tuple(f"file:{file}" for file in sorted(stage.feed.iterdir())[2:3])
    assert stage.lineage
    out = ExcludedRanges((ExcludedRange("one", files=uris),))
    EXCLUDED_RANGES_FILE.of(stage.stream_home, stage.lineage).write(out)
    proof = proved(spark, caught_up(spark, stage), batches=50)
    assert_equal(proof)
    refused = spark.read.format("delta").load(str(stage.table("quarantine"))).where("reason = 'left_out'").count()
    assert proof.tables[2].identical >= refused > 0


def test_a_batch_of_which_rows_are_gone_is_left_out_by_name(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    write_click_files(stage.feed, 5, rate=12)
    caught_up(spark, stage)
    newest = read_last_commit(stage.checkpoint)
    sessions = DeltaTable.forPath(spark, str(stage.table("sessions")))
    first = sessions.toDF().where(f"batch_id = {newest}").first()
    assert first is not None
    sessions.delete(f"session_id = '{first.session_id}'")
    proof = proved(spark, stage, batches=3)
    assert_equal(proof)
    (note,) = proof.notes
    assert note.startswith(f"sessions: batches {newest} ")


def test_a_replay_takes_no_file_away(spark: SparkSession, tmp_path: Path) -> None:
    """Spark removes a batch's files when it begins the next one: those of the newest batch are there."""
    spec = clicks_spec()
    spec["source"]["options"] |= {"cleanSource": "delete"}
    stage = Stage.set_up(tmp_path, spec)
    write_click_files(stage.feed, 5, rate=12)
    caught_up(spark, stage)
    there = sorted(file.name for file in stage.feed.iterdir())
    proof = proved(spark, stage, batches=50)
    assert proof.verdict is ProofVerdict.EQUAL
    assert proof.notes, "the files of the batches before are gone"
    assert sorted(file.name for file in stage.feed.iterdir()) == there


def migrated_spec(stage: Stage, migration: dict[str, Any], **mapping: str) -> StreamSpec:
    document = document_of(stage.spec())
    document["mapping"] |= mapping
    return StreamSpec.model_validate({**document, "migrations": [{"id": "one", **migration}]})


def test_open_events_that_a_migration_leaves_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """The fork is seeded, and its batches have other numbers: all the same each row comes out."""
    stage = Stage.set_up(tmp_path, clicks_spec() | {"measures": {"spent": "sum(amount)"}})
    write_click_files(stage.feed, 6, rate=12)
    caught_up(spark, stage)
    spec = migrated_spec(stage, {"columns": {"page": "page"}})
    proof = prove_by_replay(spark, stage.stream_home, spec, ProofRequest(batches=3))
    assert proof.holds, list(proof.lines())
    sessions = proof.tables[0]
    assert sessions.identical > 0
    assert {each.difference.columns for each in sessions.differences} <= {("batch_id",)}
    assert all(not table.differences for table in proof.tables[1:])


def test_open_events_that_move_to_another_key(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    write_click_files(stage.feed, 6, rate=12)
    caught_up(spark, stage)
    spec = migrated_spec(stage, {"key": "upper(key)"}, key="upper(user_id)")
    proof = prove_by_replay(spark, stage.stream_home, spec, ProofRequest(batches=3))
    assert proof.verdict is ProofVerdict.EXPLAINED, list(proof.lines())
    sessions = proof.tables[0]
    new = [each.difference for each in sessions.differences if each.difference.kind is DifferenceKind.ONLY_NEW]
    assert sum(each.rows for each in new) > 0
    assert all(str(sample.new["key"]).isupper() for each in new for sample in each.samples if sample.new)


def test_a_running_stream_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(idle_after="2 seconds"))
    files = sorted(write_click_files(stage.root, 9, rate=12))

    def feed(names: list[str]) -> None:
        for name in names:
            (stage.root / name).rename(stage.feed / name)

    feed(files[:4])
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(
            lambda: bool(stage.lineage) and len(list_committed_batches(stage.checkpoint)) >= 6, "six batches"
        )
        feed(files[4:])
        before = read_last_commit(stage.checkpoint)
        proof = proved(spark, stage, batches=5)
        driver.wait_for(lambda: (read_last_commit(stage.checkpoint) or 0) > (before or 0), "going on")
        assert not driver.ended
    assert proof.verdict is ProofVerdict.EQUAL, list(proof.lines())
