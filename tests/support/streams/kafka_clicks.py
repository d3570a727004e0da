"""Clicks in a topic of a real broker: the stream that reads them, and a producer that knows where each of them is."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from confluent_kafka import Message, Producer
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import (
    EVENTS,
    PUNCTUATIONS,
    list_begun_batches,
    read_last_commit,
    read_planned_batch,
)
from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.home.roots import DataPath
from sessionizer_demo.feed.generator import Row
from support.expected.landed import event_of, is_valid
from support.processes.kafka_broker import KafkaBroker
from support.streams.stage import CLICK_COLUMNS, Stage, clicks_spec, topic_source

WITHIN_S = 60.0
Place = tuple[int, int]
"""Partition and offset."""


class Broker(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


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


def produce(broker: Broker, topic: str, rows: Iterable[Row]) -> dict[Place, Row]:
    producer = _producer(broker, **{"enable.idempotence": True})
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
    assert producer.flush(WITHIN_S) == 0
    return placed


def batches_of(lineages: Sequence[tuple[DataPath, int | None]], topic: str, placed: dict[Place, Row]) -> list[Batch]:
    """The batches that Spark formed, as the offset logs tell, of one lineage after another.

    A lineage is its checkpoint and the last batch that counts (None: all). The first batch of a later one brings the
    state of the one before. The only other punctuations are drains.
    """
    batches: list[Batch] = []
    before: dict[str, int] = {}
    for number, (checkpoint, last) in enumerate(lineages):
        punctuated = -1
        for batch_id in sorted(list_begun_batches(checkpoint)):
            if last is not None and batch_id > last:
                break
            planned = read_planned_batch(checkpoint, batch_id)
            until = planned.ends.get(EVENTS, {topic: before})[topic]
            moved = tuple(_moved(placed, topic, before, until))
            brings_state = number > 0 and batch_id == 0
            drains = planned.last_file_offset(PUNCTUATIONS) != punctuated and not brings_state
            if moved or not brings_state:
                batches.append(Batch(moved, planned.at_ms, NEVER_MS if drains else None))
            before, punctuated = until, planned.last_file_offset(PUNCTUATIONS)
    assert sum(before.values()) == len(placed), "not every record was read"
    return batches


def _moved(placed: dict[Place, Row], topic: str, before: dict[str, int], until: dict[str, int]) -> Iterator[Event]:
    for partition, end in until.items():
        for offset in range(before.get(partition, 0), end):
            row = placed[int(partition), offset]
            if is_valid(row):
                yield event_of(replace(row.event, page=f"{row.event.page}@{topic}/{partition}"))


def read_so_far(stage: Stage) -> int:
    committed = read_last_commit(stage.checkpoint) if stage.lineage else None
    if committed is None:
        return 0
    topics = read_planned_batch(stage.checkpoint, committed).ends.get(EVENTS, {})
    return sum(sum(ends.values()) for ends in topics.values())


Brought: TypeAlias = "tuple[dict[str, Any], Callable[[Sequence[Row]], None]]"
"""A source, and what brings rows into it."""


def brought_to_kafka(broker: KafkaBroker, topic: str) -> Brought:
    source = topic_source(broker.bootstrap_servers, topic)

    def produce(rows: Sequence[Row]) -> None:
        producer = _producer(broker)
        for row in rows:
            producer.produce(topic, row.value, key=row.key)
        assert producer.flush(WITHIN_S) == 0

    return source, produce


def brought_to_delta(spark: SparkSession, root: Path) -> Brought:
    """Into a new table below ``root``, whose version 0 has no row; each call appends one version."""
    table, lines = root / "clicks_table", root / "lines"
    lines.mkdir(parents=True)

    def append(rows: Sequence[Row]) -> None:
        file = lines / f"{len(list(lines.iterdir()))}.json"
        file.write_bytes(b"\n".join(row.value for row in rows))
        spark.read.schema(CLICK_COLUMNS).json(str(file)).write.format("delta").mode("append").save(str(table))

    append([])
    return {"format": "delta", "path": str(table)}, append


def topic_spec(broker: KafkaBroker, topic: str, **options: Any) -> dict[str, Any]:
    return {**clicks_spec(idle_after=None), "source": topic_source(broker.bootstrap_servers, topic, **options)}


def click(user: str, event_id: str, at_s: int) -> bytes:
    told = {"event_id": event_id, "user_id": user, "client": "web", "ts": 1_700_000_000_000 + at_s * 1000}
    return json.dumps({**told, "type": "view"}).encode()


def send(broker: KafkaBroker, topic: str, clicks: Sequence[bytes], partition: int = 0) -> None:
    producer = _producer(broker)
    for value in clicks:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WITHIN_S) == 0


def _producer(broker: Broker, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2, **settings})


def transaction(broker: KafkaBroker, topic: str, clicks: Sequence[bytes], *, commit: bool) -> None:
    """Send them to partition 0 in one transaction. An aborted one leaves its records in the log."""
    producer = _producer(broker, **{"transactional.id": uuid.uuid4().hex})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for value in clicks:
        producer.produce(topic, value, partition=0)
    producer.flush(WITHIN_S)
    if commit:
        producer.commit_transaction(WITHIN_S)
    else:
        producer.abort_transaction(WITHIN_S)
