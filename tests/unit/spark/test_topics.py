"""Kafka's answers about topics, and the errors that they come to."""

from __future__ import annotations

import pytest

from sessionizer.errors import SourceForbidden, SourceMissing
from sessionizer.spark.ingest.topics import ASKED, ask_until_settled, kafka_settings, require_ids, topics_of
from sessionizer.spark.internals.kafka_admin import Fault, Topic
from sessionizer.stream_spec.document.source import KafkaSource

THERE = Topic("A", readable=True)
GONE = Fault("UnknownTopicOrPartitionException", "This server does not host this topic-partition.")
SHUT = Fault("TopicAuthorizationException", "Topic authorization failed.")


def source(**fields: object) -> KafkaSource:
    given = {"format": "kafka", "bootstrap_servers": "b:1", "topic": "a,b", "encoding": "text"}
    return KafkaSource.model_validate({**given, **fields})


def test_a_broker_without_ids_has_none() -> None:
    assert require_ids("clicks", "b:1", {"a": THERE, "b": Topic(None, readable=True)}) == {"a": "A"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (GONE, SourceMissing),
        (Fault("InvalidTopicException", "no such name"), SourceMissing),
        (SHUT, SourceForbidden),
        (Fault("SaslAuthenticationException", "wrong password"), SourceForbidden),
        (Topic("B", readable=False), SourceForbidden),
    ],
)
def test_what_cannot_be_read_is_named(answer: Topic | Fault, error: type[SourceMissing | SourceForbidden]) -> None:
    with pytest.raises((SourceMissing, SourceForbidden)) as caught:
        require_ids("clicks", "b:1", {"a": THERE, "b": answer})
    assert type(caught.value) is error
    assert (caught.value.stream, caught.value.field, caught.value.name) == ("clicks", "source.topic", "b")
    assert caught.value.place == "b:1"


@pytest.mark.parametrize(("there_at", "asked"), [(1, 1), (2, 2), (ASKED + 1, ASKED)])
def test_a_topic_that_is_missing_is_asked_about_again(there_at: int, asked: int) -> None:
    times: list[int] = []

    def ask() -> dict[str, Topic | Fault]:
        times.append(len(times) + 1)
        return {"a": THERE, "b": THERE if times[-1] >= there_at else GONE}

    answers = ask_until_settled(ask, pause_s=0)
    assert (len(times), answers["b"] == THERE) == (asked, there_at <= ASKED)


def test_nobody_waits_for_a_right() -> None:
    answers: list[dict[str, Topic | Fault]] = [{"a": SHUT}]
    assert ask_until_settled(answers.pop, pause_s=0) == {"a": SHUT}


def test_settings_are_those_of_the_reader_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKS_JAAS", "hunter2")
    options = {"kafka.security.protocol": "SASL_SSL", "Kafka.client.id": "c", "maxOffsetsPerTrigger": "5"}
    settings = kafka_settings(
        source(options=options, options_from_environment={"kafka.sasl.jaas.config": "CLICKS_JAAS"})
    )
    assert settings == {
        "bootstrap.servers": "b:1",
        "client.id": "c",
        "isolation.level": "read_committed",
        "sasl.jaas.config": "hunter2",
        "security.protocol": "SASL_SSL",
    }


@pytest.mark.parametrize("option", ["kafka.isolation.level", "kafka.Isolation.Level"])
def test_the_isolation_that_a_spec_names_stays(option: str) -> None:
    settings = kafka_settings(source(options={option: "read_uncommitted"}))
    assert {name.lower(): value for name, value in settings.items()}["isolation.level"] == "read_uncommitted"


def test_each_topic_is_asked_about_once() -> None:
    assert topics_of(source(topic="b,a,b")) == ("b", "a")
