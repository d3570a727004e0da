"""A sink that sends rows to a Kafka topic, keyed by user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors import SourceUnreachable

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from sessionizer_demo.feed.generator import Row
    from sessionizer_demo.feed.pacing import Tick

_ANSWER_WITHIN_S = 10.0
_DELIVER_WITHIN_S = 60.0


class KafkaSink:
    """A sink that sends every row as a message to ``topic``.

    The key is the user id in UTF-8 (null if the row has none), the value is the row. The producer is idempotent: its
    own retries neither duplicate nor reorder messages. Raises SourceUnreachable if no broker answers, or a message was
    not delivered within a minute.
    """

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._servers, self._topic = bootstrap_servers, topic
        self._failure: KafkaError | None = None
        self._producer = _producer(bootstrap_servers)
        self._await_broker()

    def write(self, tick: Tick) -> None:
        """Send the rows of ``tick`` and wait until the broker has them. Raises SourceUnreachable."""
        for row in tick.rows:
            self._produce(row)
        self._deliver()

    def close(self) -> None:
        """Wait for the messages that are not delivered yet. Raises SourceUnreachable."""
        self._deliver()

    def _produce(self, row: Row) -> None:
        key = None if row.key is None else row.key.encode()
        while True:
            try:
                self._producer.produce(self._topic, row.value, key, on_delivery=self._note_delivery)
            except BufferError:  # the queue is full: let some of it go first
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _deliver(self) -> None:
        undelivered = self._producer.flush(_DELIVER_WITHIN_S)
        if self._failure is not None:
            raise SourceUnreachable(self._servers, self._failure.str())
        if undelivered:
            raise SourceUnreachable(self._servers, f"{undelivered} messages to {self._topic!r} were not delivered")

    def _note_delivery(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error

    def _await_broker(self) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - a feed to a folder needs no Kafka

        try:
            self._producer.list_topics(timeout=_ANSWER_WITHIN_S)
        except KafkaException as error:
            raise SourceUnreachable(self._servers, error.args[0].str()) from error


def _producer(bootstrap_servers: str) -> Producer:
    from confluent_kafka import Producer  # noqa: PLC0415 - a feed to a folder needs no Kafka

    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            "message.timeout.ms": int(_DELIVER_WITHIN_S * 1000),
            # We raise our own errors. The library's log lines would go to the terminal.
            "log_level": 2,
        }
    )
