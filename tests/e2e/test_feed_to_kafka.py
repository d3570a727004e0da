"""The feed's Kafka sink against a real broker that is restarted."""

import time

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from sessionizer.errors import SourceUnreachable
from sessionizer_demo.feed.generator import generate_within
from sessionizer_demo.feed.runner import FeedOptions, KafkaTarget, run_feed
from sessionizer_demo.feed.scenario import Bounds, Scenario
from sessionizer_demo.feed.sinks.kafka_sink import KafkaSink
from support.processes.kafka_broker import KafkaBroker

_ROWS = 1_000
_READ_WITHIN_S = 120.0


def read_all(broker: KafkaBroker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of every message of the two partitions, from the beginning to the end as it is now."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "log_level": 2})
    try:
        partitions = [TopicPartition(topic, number, 0) for number in range(2)]
        expected = sum(consumer.get_watermark_offsets(partition, timeout=_READ_WITHIN_S)[1] for partition in partitions)
        consumer.assign(partitions)
        messages: list[Message] = []
        deadline = time.monotonic() + _READ_WITHIN_S
        while len(messages) < expected and time.monotonic() < deadline:
            messages += consumer.consume(expected - len(messages), timeout=1)
        assert all(message.error() is None for message in messages)
        return [(message.key(), message.value()) for message in messages]
    finally:
        consumer.close()


@pytest.mark.long
def test_every_row_is_there_once_before_and_after_a_restart(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    scenario = Scenario(start_ms=1_750_000_000_000)
    bounds = Bounds(events=_ROWS)
    target = KafkaTarget(kafka_broker.bootstrap_servers, kafka_topic)

    tally = run_feed(FeedOptions(scenario=scenario, target=target, bounds=bounds, is_paced=False))

    sent = [(row.key.encode() if row.key else None, row.value) for row in generate_within(scenario, bounds)]
    assert tally.rows == _ROWS
    assert sorted(read_all(kafka_broker, kafka_topic), key=repr) == sorted(sent, key=repr)
    kafka_broker.restart()
    assert sorted(read_all(kafka_broker, kafka_topic), key=repr) == sorted(sent, key=repr)


@pytest.mark.long
def test_delivered_rows_survive_a_killed_broker(kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    target = KafkaTarget(kafka_broker.bootstrap_servers, kafka_topic)
    scenario = Scenario(start_ms=1_750_000_000_000)
    run_feed(FeedOptions(scenario=scenario, target=target, bounds=Bounds(events=_ROWS), is_paced=False))

    kafka_broker.kill()
    kafka_broker.start()

    assert len(read_all(kafka_broker, kafka_topic)) == _ROWS


def test_a_feed_whose_broker_is_restarted_meanwhile_doubles_nothing(
    kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    target = KafkaTarget(kafka_broker.bootstrap_servers, kafka_topic)
    options = FeedOptions(
        scenario=Scenario(start_ms=1_750_000_000_000), target=target, bounds=Bounds(events=_ROWS), is_paced=False
    )
    ticks_seen = []

    def restart_after_the_third_tick(_: object) -> None:
        ticks_seen.append(1)
        if len(ticks_seen) == 3:
            kafka_broker.restart()

    run_feed(options, on_tick=restart_after_the_third_tick)

    assert len(read_all(kafka_broker, kafka_topic)) == _ROWS


@pytest.mark.long
def test_no_broker_is_said_so() -> None:
    with pytest.raises(SourceUnreachable) as raised:
        KafkaSink("127.0.0.1:1", "clicks")
    assert raised.value.address == "127.0.0.1:1"
