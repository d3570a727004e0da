"""Clicks in a topic of a real broker: the stream that reads them, and a producer that knows where each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from support.streams.stage import clicks_spec, topic_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

    from sessionizer_demo.feed.generator import Row
    from support.processes.kafka_broker import KafkaBroker

DELIVERED_WITHIN_S = 60.0
Place = tuple[int, int]
"""Partition and offset."""


def kafka_spec(broker: str, topic: str) -> dict[str, Any]:
    """The key is the record's own, the client stands in a header, the page gets the partition it came through."""
    spec = clicks_spec(idle_after=None)
    spec["source"] = topic_source(broker, topic, maxOffsetsPerTrigger=200)
    spec["mapping"] |= {
        "key": "kafka.key",
        "client": "cast(filter(kafka.headers, header -> header.key = 'client')[0].value as string)",
        "closes": "type <=> 'logout' and kafka.offset >= 0 and kafka.timestamp is not null",
    }
    spec["mapping"]["payload"] |= {"page": "concat(page, '@', kafka.topic, '/', kafka.partition)"}
    return spec


def produce(broker: KafkaBroker, topic: str, rows: Iterable[Row]) -> dict[Place, Row]:
    """Send rows, and return the place of each."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 2})
    placed: dict[Place, Row] = {}

    def sent(row: Row) -> Any:
        def take(error: object, message: Message) -> None:
            assert error is None
            place = (message.partition(), message.offset())
            assert None not in place
            placed[place] = row  # type: ignore[index]

        return take

    for row in rows:
        headers: list[tuple[str, str | bytes | None]] = [("client", row.event.client)]
        producer.produce(topic, row.value, key=row.key, headers=headers, on_delivery=sent(row))
    assert producer.flush(DELIVERED_WITHIN_S) == 0
    return placed
