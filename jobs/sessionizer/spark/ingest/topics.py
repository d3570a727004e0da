"""Checks of the topics of a source before anything starts: that they exist, may be read, and are the same as before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sessionizer.errors import InvalidSpec, SourceForbidden, SourceMissing
from sessionizer.launch.driver_environment import plain
from sessionizer.spark.ingest.source import check_reachable, kafka_options
from sessionizer.spark.internals.kafka_admin import Fault, Topic, describe_topics, earliest_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from sessionizer.stream_spec.document.source import KafkaSource

FIELD: Final = "source.topic"
NOT_COMPACTED: Final = (
    "a topic without compaction, because the broker removes records that the stream has not read if a newer one has "
    "their key. Set its cleanup.policy to delete, or source.accept_compaction to true"
)
ASKED: Final = 3
"""Number of requests for a missing topic, because a broker that has just started may not know of it yet."""
PAUSE_S: Final = 1.0
_PREFIX: Final = "kafka."
_MISSING: Final = frozenset({"UnknownTopicOrPartitionException", "InvalidTopicException"})


def topic_ids(spark: SparkSession, stream: str, source: KafkaSource) -> dict[str, str]:
    """Return the id of each topic of ``source`` that has one. Empty in plain Spark, which asks no topic.

    Raises SourceUnreachable, SourceMissing, SourceForbidden, InvalidSpec.
    """
    check_reachable(source)
    if plain():
        return {}
    settings = kafka_settings(source)
    answers = ask_until_settled(lambda: describe_topics(spark, settings, topics_of(source)))
    found = require_ids(stream, source.bootstrap_servers, answers)
    if not source.accept_compaction:
        for name, answer in answers.items():
            if isinstance(answer, Topic) and answer.compacted:
                raise InvalidSpec(FIELD, name, NOT_COMPACTED)
    return found


def oldest_offsets(spark: SparkSession, source: KafkaSource, partitions: Sequence[str]) -> dict[str, int]:
    """Return the oldest offset that the brokers keep of each partition, such as ``clicks-3``. None in plain Spark.

    Raises InvalidSpec, and other errors of Kafka as they are.
    """
    return {} if plain() else earliest_offsets(spark, kafka_settings(source), partitions)


def topics_of(source: KafkaSource) -> tuple[str, ...]:
    """Return the names of its topics, as the spec lists them."""
    return tuple(dict.fromkeys(source.topic.split(",")))


def kafka_settings(source: KafkaSource) -> dict[str, str]:
    """Return the settings of Kafka's own clients in the options of ``source``.

    Raises InvalidSpec for an unset variable.
    """
    options = kafka_options(source).items()
    return {name[len(_PREFIX) :]: value for name, value in options if name.lower().startswith(_PREFIX)}


def ask_until_settled(
    ask: Callable[[], Mapping[str, Topic | Fault]], pause_s: float = PAUSE_S
) -> Mapping[str, Topic | Fault]:
    """Return the answers of ``ask``, repeated while a topic is missing."""
    answers = ask()
    for _ in range(ASKED - 1):
        if not any(isinstance(answer, Fault) and answer.exception in _MISSING for answer in answers.values()):
            break
        time.sleep(pause_s)
        answers = ask()
    return answers


def require_ids(stream: str, brokers: str, answers: Mapping[str, Topic | Fault]) -> dict[str, str]:
    """Return the ids in ``answers``. Raises SourceMissing, SourceForbidden for the first topic that cannot be read."""
    found = {name: require_topic(stream, brokers, name, answer).id for name, answer in answers.items()}
    return {name: topic for name, topic in found.items() if topic is not None}


def require_topic(stream: str, brokers: str, name: str, answer: Topic | Fault) -> Topic:
    """Return the topic that was described. Raises SourceMissing, SourceForbidden."""
    if isinstance(answer, Topic):
        if not answer.readable:
            raise SourceForbidden(stream, FIELD, name, brokers, "it has the right DESCRIBE and lacks READ")
        return answer
    if answer.exception in _MISSING:
        raise SourceMissing(stream, FIELD, name, brokers)
    raise SourceForbidden(stream, FIELD, name, brokers, f"{answer.exception}: {answer.detail}")
