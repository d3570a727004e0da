"""``sessionizer init --topic`` on a real broker: the guessed spec is valid, and its first records are shown."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.errors import InvalidSpec, SourceMissing
from sessionizer.spark.history.sample import preview, sample_topic
from sessionizer.stream_spec.document.source import KafkaSource
from sessionizer.stream_spec.spec_folder import load_stream
from support.places import REPOSITORY
from support.processes.kafka_broker import KafkaBroker


def source_of(broker: KafkaBroker, topic: str) -> KafkaSource:
    return KafkaSource(
        format="kafka", bootstrap_servers=broker.bootstrap_servers, topic=topic, encoding="json", columns="c string"
    )


def test_a_topic_becomes_a_spec(
    kafka_broker: KafkaBroker, kafka_topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(6):
        value = json.dumps({"ts": 1767607200 + number, "page": f"/{number}"}) if number else "no JSON"
        producer.produce(kafka_topic, value, key=f"u{number % 2}", partition=number % 2)
    assert producer.flush(60) == 0
    streams = tmp_path / "specs"
    typed = ["init", "--topic", f"{kafka_broker.bootstrap_servers}/{kafka_topic}", "--name", "visits"]
    typed += ["--option", "kafka.client.id=trial", "--streams", str(streams), "--home", str(tmp_path)]
    program = [sys.executable, str(REPOSITORY / "jobs" / "main.py")]
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
    with pytest.raises(InvalidSpec) as found:
        sample_topic(spark, source_of(kafka_broker, kafka_topic))
    assert (found.value.field, found.value.value) == ("--topic", kafka_topic)
    with pytest.raises(SourceMissing):
        sample_topic(spark, source_of(kafka_broker, "nowhere"))


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        (["--topic", "localhost/clicks"], "--topic"),
        (["--topic", "localhost:9092/clicks", "sample.json"], "--topic"),
        (
            ["--topic", "localhost:9092/clicks", "--option", "kafka.sasl.jaas.config=hunter2"],
            "source.options.kafka.sasl.jaas.config",
        ),
    ],
)
def test_what_is_typed_wrong_is_named(typed: list[str], field: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", *typed, "--streams", str(tmp_path)])
    assert isinstance(done.exception, InvalidSpec)
    assert done.exception.field == field
    assert "hunter2" not in str(done.exception)


@pytest.mark.parametrize("answer", ["localhost:1/clicks", "clicks.txt"])
def test_without_a_sample_the_user_is_asked(answer: str, tmp_path: Path) -> None:
    """What is answered is looked at as if it had been typed: nothing is there in either place."""
    (tmp_path / "clicks.yaml").touch()
    done = CliRunner().invoke(app, ["init", "--streams", str(tmp_path)], input=f"{answer}\n")
    assert str(tmp_path / "clicks.yaml") in str(done.exception)
