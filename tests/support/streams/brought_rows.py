"""Sources that rows are brought into, a few at a time: a topic of Kafka, a Delta table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import Producer

from support.streams.stage import CLICK_COLUMNS, topic_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer_demo.feed.generator import Row
    from support.processes.kafka_broker import KafkaBroker

Brought: TypeAlias = "tuple[dict[str, Any], Callable[[Sequence[Row]], None]]"
"""A source, and what brings rows into it."""
DELIVERED_WITHIN_S = 60.0


def brought_to_kafka(broker: KafkaBroker, topic: str) -> Brought:
    """Into a topic that is there."""
    source = topic_source(broker.bootstrap_servers, topic)

    def produce(rows: Sequence[Row]) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})
        for row in rows:
            producer.produce(topic, row.value, key=row.key)
        assert producer.flush(DELIVERED_WITHIN_S) == 0

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
