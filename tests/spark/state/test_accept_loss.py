"""A stream whose source has lost events goes on without them: each is named first, and nothing else is lost."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sessionizer.control.execution import execute
from sessionizer.errors import EventsGone, InvalidSpec, PlanChanged, QueryFailed, SourceReplaced
from sessionizer.home.stream_home import SavepointHome
from sessionizer.lineage.excluded_ranges import Records
from sessionizer.lineage.kept_spec import read_source_ids
from sessionizer.spark.failures.query_failure import classify_failure
from sessionizer.spark.ingest.topics import oldest_offsets
from sessionizer.spark.state.commands.moves import LossRunner
from sessionizer.spark.state.commands.restores import RollbackRunner, SparkFacts
from sessionizer.state.commands.moves import LossPlan, Switch
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.return_plans import plan_restore
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.stream_spec.document.source import KafkaSource
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.faults.spoiled_streams import DELTA_CLICKS, a_commit, log_truncated
from support.processes.in_process import begin_batch, catch_up, drain
from support.processes.kafka_broker import KafkaBroker
from support.streams.kafka_clicks import click, send, topic_spec
from support.streams.stage import Stage, clicks_spec
from support.verbs.scene_verbs import approved


def accept_loss(spark: SparkSession, stage: Stage) -> LossPlan:
    accepting, home = loss_of(spark, stage), stage.stream_home
    plan, before = accepting.look(), stage.lineage
    with pytest.raises(PlanChanged):
        execute(approved(home, Switch.name, plan, digest="0" * 16), accepting)
    assert stage.lineage == before
    assert execute(approved(home, Switch.name, plan), accepting).lineage_to == stage.lineage != before
    return plan.decision


def loss_of(spark: SparkSession, stage: Stage) -> LossRunner:
    return LossRunner(spark=spark, home=stage.stream_home, command=Switch(accept_loss=True), spec=stage.spec())


def savepoint(stage: Stage) -> tuple[SavepointHome, Manifest]:
    home = stage.stream_home
    made = make_native_savepoint(
        home, read_committed_batch(home), SavepointRequest(home.savepoints, "a test"), lambda _: None
    )
    return SavepointHome.of(home.savepoints, made.id), made


def died_of(spark: SparkSession, stage: Stage) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        catch_up(spark, stage)
    error = classify_failure(stage.name, caught.value)
    assert isinstance(error, QueryFailed)
    return error.cause


def ids_of_events(stage: Stage) -> list[str]:
    rows: list[dict[str, Any]] = table_rows(stage.table("sessions"))
    return sorted(event["event_id"] for row in rows for event in row["events"])


@pytest.mark.usefixtures("tuned")
def test_records_that_retention_removed(
    spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    stage = Stage.begun(tmp_path, topic_spec(kafka_broker, kafka_topic))
    clicks = [click("ann", f"c{number}", number) for number in range(7)]
    send(kafka_broker, kafka_topic, clicks[:3])
    catch_up(spark, stage)
    saved = savepoint(stage)
    assert not plan_restore(stage.stream_home, *saved, SparkFacts(spark), Restore()).replay.missing
    with pytest.raises(InvalidSpec) as caught:
        loss_of(spark, stage).look()
    assert (caught.value.field, caught.value.value) == ("--accept-loss", "given")
    send(kafka_broker, kafka_topic, clicks[3:])
    kafka_broker.delete_records(kafka_topic, before=5)
    source = stage.spec().source
    assert isinstance(source, KafkaSource)
    assert oldest_offsets(spark, source, [f"{kafka_topic}-0"]) == {f"{kafka_topic}-0": 5}
    assert died_of(spark, stage) == "source_data_loss"
    assert plan_restore(stage.stream_home, *saved, SparkFacts(spark), Restore()).replay.missing == (
        str(Records(kafka_topic, 0, 3, 5)),
    )
    plan = accept_loss(spark, stage)
    assert plan.lost == (str(Records(kafka_topic, 0, 3, 5)),)
    with pytest.raises(EventsGone):  # its rows would be deleted, and the records are not there to read again
        RollbackRunner(spark=spark, home=stage.stream_home, command=Rollback()).look().require_possible()
    drain(spark, stage)
    assert ids_of_events(stage) == ["c0", "c1", "c2", "c5", "c6"]


@pytest.mark.usefixtures("tuned")
@pytest.mark.long
def test_a_topic_made_anew(spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    """The new topic is longer than the old one."""
    stage = Stage.begun(tmp_path, topic_spec(kafka_broker, kafka_topic))
    send(kafka_broker, kafka_topic, [click("ann", f"old{number}", number) for number in range(2)])
    catch_up(spark, stage)
    saved = savepoint(stage)
    kafka_broker.delete_topic(kafka_topic)
    kafka_broker.create_topic(kafka_topic)
    send(kafka_broker, kafka_topic, [click("ann", f"new{number}", 5 + number) for number in range(4)])
    with pytest.raises(SourceReplaced):
        catch_up(spark, stage)
    assert plan_restore(stage.stream_home, *saved, SparkFacts(spark), Restore()).replay.missing
    left = stage.lineage
    plan = accept_loss(spark, stage)
    assert plan.lost
    assert left is not None
    assert stage.lineage is not None
    known, now = (read_source_ids(stage.stream_home, lineage) for lineage in (left, stage.lineage))
    assert known.keys() == now.keys() == {kafka_topic}
    assert known != now
    assert saved[1].source_ids == known
    drain(spark, stage)
    assert ids_of_events(stage) == ["new0", "new1", "new2", "new3", "old0", "old1"]


@pytest.mark.long
def test_versions_that_a_table_has_lost(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path, DELTA_CLICKS)
    a_commit(stage)
    catch_up(spark, stage)
    log_truncated(stage)
    assert died_of(spark, stage) == "source_data_loss"
    plan = accept_loss(spark, stage)
    assert [lost.split(":")[0] for lost in plan.lost] == [f"version {version}" for version in range(1, 6)]
    a_commit(stage, 7)
    drain(spark, stage)
    assert len(ids_of_events(stage)) == 2


@pytest.mark.long
def test_files_that_are_gone_before_their_batch_was_over(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path, clicks_spec(files_per_batch=3))
    stage.feed.mkdir(parents=True, exist_ok=True)
    (stage.feed / "0.json").write_bytes(line(0, "ann"))
    catch_up(spark, stage)
    for number in range(1, 4):
        (stage.feed / f"{number}.json").write_bytes(line(number, "ann"))
    begin_batch(spark, stage)
    (stage.feed / "2.json").unlink()
    plan = accept_loss(spark, stage)
    assert [lost.rpartition("/")[2] for lost in plan.lost] == ["2.json"]
    drain(spark, stage)
    assert [row["event_count"] for row in table_rows(stage.table("sessions"))] == [3]
