"""Clicks of one topic in transactions of Kafka, committed or aborted."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from support.streams.stage import clicks_spec, topic_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.processes.kafka_broker import KafkaBroker

WITHIN_S = 60.0


def topic_spec(broker: KafkaBroker, topic: str, **options: Any) -> dict[str, Any]:
    """A stream of the clicks in ``topic``."""
    return {**clicks_spec(idle_after=None), "source": topic_source(broker.bootstrap_servers, topic, **options)}


def click(user: str, event_id: str, at_s: int) -> bytes:
    """A click as the topic has it."""
    told = {"event_id": event_id, "user_id": user, "client": "web", "ts": 1_700_000_000_000 + at_s * 1000}
    return json.dumps({**told, "type": "view"}).encode()


def send(broker: KafkaBroker, topic: str, clicks: Sequence[bytes], partition: int = 0) -> None:
    """Send them outside of any transaction."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})
    for value in clicks:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WITHIN_S) == 0


def transaction(broker: KafkaBroker, topic: str, clicks: Sequence[bytes], *, commit: bool) -> None:
    """Send them to partition 0 in one transaction. An aborted one leaves its records in the log."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": uuid.uuid4().hex, "log_level": 2}
    producer = Producer(settings)
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for value in clicks:
        producer.produce(topic, value, partition=0)
    producer.flush(WITHIN_S)
    if commit:
        producer.commit_transaction(WITHIN_S)
    else:
        producer.abort_transaction(WITHIN_S)
