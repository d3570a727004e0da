"""A real broker that gets records, is restarted and loses its topic. Nothing is lost or doubled.

``sessionizer init --topic``: the guessed spec is valid, and its first records are shown.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.control.records.driver_records import POSITIONS_FILE
from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import InvalidSpec, SourceMissing, SourceReplaced, SourceUnreachable
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import view_spec
from sessionizer.lineage.kept_spec import read_source_ids
from sessionizer.spark.history.sample import preview, sample_topic
from sessionizer.spark.state.lineages.source_beginning import unread_of
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.stream_spec.document.source import KafkaSource
from sessionizer.stream_spec.spec_folder import load_stream
from support.expected.landed import assert_landed, is_valid, table_rows
from support.places import REPOSITORY, opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up, drain
from support.processes.kafka_broker import KafkaBroker
from support.streams.click_files import known_rows
from support.streams.kafka_clicks import batches_of, click, kafka_spec, produce, read_so_far, topic_spec, transaction
from support.streams.stage import Stage, topic_source
from support.verbs.reseeded_stream import reseed

ROWS = 900


@pytest.mark.long
def test_nothing_is_lost_or_doubled_while_broker_and_driver_come_and_go(
    kafka_broker: KafkaBroker, kafka_topic: str, tmp_path: Path
) -> None:
    stage = Stage.set_up(tmp_path, kafka_spec(kafka_broker.bootstrap_servers, kafka_topic))
    rows = known_rows(ROWS)
    placed = produce(kafka_broker, kafka_topic, rows[:300])
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: read_so_far(stage) >= 300, "reading what was there")
        kafka_broker.restart()
        placed |= produce(kafka_broker, kafka_topic, rows[300:600])
        driver.wait_for(lambda: read_so_far(stage) >= 600, "reading on after the restart")
        placed |= produce(kafka_broker, kafka_topic, rows[600:])
        driver.wait_for(lambda: read_so_far(stage) > 600, "beginning with the rest")
        driver.wait_for(lambda: POSITIONS_FILE.of(stage.stream_home).read() is not None, "noting its positions")
        driver.kill_all()
    noted = POSITIONS_FILE.of(stage.stream_home).require()
    assert noted is not None
    assert {(each.oldest, each.lost_in_ms) for each in noted.partitions} == {(0, None)}
    assert all(each.newest is not None and each.left == each.offset > 0 for each in noted.partitions)
    run_to_end(stage, "b")

    assert len(placed) == ROWS
    assert_landed(stage, batches_of([(stage.checkpoint, None)], kafka_topic, placed), rows)
    quarantined = {row["source_position"]: row["raw"] for row in table_rows(stage.table("quarantine"))}
    for (partition, offset), row in placed.items():
        if not is_valid(row):
            assert quarantined[f"{kafka_topic}-{partition}-{offset}"] == row.value.decode(errors="replace")


@pytest.mark.usefixtures("tuned")
@pytest.mark.long
def test_a_topic_made_anew_is_refused_by_name_however_long_it_is(
    kafka_broker: KafkaBroker, kafka_topic: str, tmp_path: Path
) -> None:
    """The new topic is longer than the old one. By offsets alone its first records would never be read."""
    stage = Stage.set_up(tmp_path, kafka_spec(kafka_broker.bootstrap_servers, kafka_topic))
    rows = known_rows(60)
    produce(kafka_broker, kafka_topic, rows[:20])
    run_to_end(stage, "a", until="caught-up")
    before = [table_rows(stage.table(table)) for table in ("sessions", "quarantine")]
    assert stage.lineage
    known = read_source_ids(stage.stream_home, stage.lineage)
    assert set(known) == {kafka_topic}
    kafka_broker.delete_topic(kafka_topic)
    kafka_broker.create_topic(kafka_topic, partitions=2)
    produce(kafka_broker, kafka_topic, rows)

    said = run_to_end(stage, "b", until="caught-up", code=SourceReplaced.exit_code)

    ended = EXIT_FILE.of(stage.stream_home, "b").read()
    assert ended
    assert (ended.terminal, ended.error_type) == (True, "SourceReplaced")
    assert f"`sessionizer switch --accept-loss {stage.name} " in said
    assert read_source_ids(stage.stream_home, stage.lineage) == known
    assert [table_rows(stage.table(table)) for table in ("sessions", "quarantine")] == before


def test_a_broker_that_is_not_there_is_said_so_and_nothing_is_begun(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, kafka_spec("127.0.0.1:1", "clicks"))
    said = run_to_end(stage, "a", code=SourceUnreachable.exit_code)
    assert "127.0.0.1:1" in said
    health = view_spec(stage.spec(), stage.home).health
    assert (health.word, health.rule) == (HealthWord.DOWN, "no_driver")
    assert stage.lineage is None
    assert list(opened(stage.stream_home.tables).iterdir()) == []


def sessions(stage: Stage) -> dict[str, list[str]]:
    """By user, the ids of the events of each session."""
    rows = table_rows(stage.table("sessions"))
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


def test_a_topic_becomes_a_spec(
    kafka_broker: KafkaBroker, kafka_topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(6):
        value = json.dumps({"ts": 1767607200 + number, "page": f"/{number}"}) if number else "no JSON"
        producer.produce(kafka_topic, value, key=f"u{number % 2}", partition=number % 2)
    assert producer.flush(60) == 0
    streams = tmp_path / "specs"
    typed = ["--topic", f"{kafka_broker.bootstrap_servers}/{kafka_topic}", "--name", "visits"]
    typed += ["--option", "kafka.client.id=trial", "--streams", str(streams), "--home", str(tmp_path)]
    program = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), "init"]
    done = subprocess.run([*program, *typed], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f"/{number}" not in done.stderr for number in range(1, 6)), "rows are for stdout"
    assert "u0" in done.stdout

    spec = load_stream(streams / "visits.yaml")
    assert isinstance(spec.source, KafkaSource)
    assert (spec.source.topic, spec.source.options) == (kafka_topic, {"kafka.client.id": "trial"})
    assert (spec.mapping.key, spec.mapping.event_time) == ("kafka.key", "timestamp_seconds(ts)")
    assert spec.mapping.payload == {"page": "page"}
    for begun in ("earliest", "latest"):
        source = spec.source.model_copy(update={"starting_offsets": begun})
        shown = preview(spark, spec.model_copy(update={"source": source}), tmp_path)
        assert sorted((row.key, row.event_count) for row in shown.sessions or ()) == [("u0", 2), ("u1", 3)]
        assert [row.reason for row in shown.refused] == ["malformed"]


def test_a_topic_without_records_or_that_is_not_there_is_refused(
    kafka_broker: KafkaBroker, kafka_topic: str, spark: SparkSession
) -> None:
    empty, nowhere = (
        KafkaSource.model_validate({**topic_source(kafka_broker.bootstrap_servers, topic), "columns": "c string"})
        for topic in (kafka_topic, "nowhere")
    )
    with pytest.raises(InvalidSpec) as found:
        sample_topic(spark, empty)
    assert (found.value.field, found.value.value) == ("--topic", kafka_topic)
    with pytest.raises(SourceMissing):
        sample_topic(spark, nowhere)


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        (["localhost/clicks"], "--topic"), (["localhost:9092/clicks", "sample.json"], "--topic"),
        (
            ["localhost:9092/clicks", "--option", "kafka.sasl.jaas.config=hunter2"],
            "source.options.kafka.sasl.jaas.config",
        ),
    ],
)  # fmt: skip
def test_what_is_typed_wrong_is_named(typed: list[str], field: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", "--topic", *typed, "--streams", str(tmp_path)])
    assert isinstance(done.exception, InvalidSpec)
    assert done.exception.field == field
    assert "hunter2" not in str(done.exception)


@pytest.mark.parametrize("answer", ["localhost:1/clicks", "clicks.txt"])
def test_without_a_sample_the_user_is_asked(answer: str, tmp_path: Path) -> None:
    """An answer counts as a typed option. Nothing is there in either place."""
    (tmp_path / "clicks.yaml").touch()
    done = CliRunner().invoke(app, ["init", "--streams", str(tmp_path)], input=f"{answer}\n")
    assert str(tmp_path / "clicks.yaml") in str(done.exception)
