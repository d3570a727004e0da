"""Kafka's client for administrators: ids of topics, whether they may be read and are compacted, their oldest offsets.

**Private**: py4j's way to the client in the jar that Spark's source reads with, and Spark's ``KafkaConfigUpdater``,
which adds the tokens that Spark has.
**Public**: no topic is asked about.
**Lost**: a topic that is not there fails the query, and one that was made anew under its old name goes unnoticed. What
retention has left is unknown.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sessionizer.spark.internals.java_class import java_class
from sessionizer.spark.internals.java_errors import door

DOOR: Final = "Kafka's administrator"
_ADMIN: Final = "org.apache.kafka.clients.admin"
ANSWERS_WITHIN_MS: Final = 20_000
_BOUNDS: Final = {"default.api.timeout.ms": str(ANSWERS_WITHIN_MS), "request.timeout.ms": str(ANSWERS_WITHIN_MS)}
_TOPIC: Final = 2
"""Kafka's number of the kind of resource that a topic is."""
_JUDGED: Final = ("UnknownTopicOrPartition", "InvalidTopic", "Authorization", "Authentication")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that exists: its ``id`` if the broker has ids, whether it is ``readable``, and is said ``compacted``."""

    id: str | None
    readable: bool
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """Kafka's answer about a topic that it does not describe: the ``exception`` by its class, and its ``detail``."""

    exception: str
    detail: str


def describe_topics(spark: SparkSession, settings: Mapping[str, str], names: Iterable[str]) -> dict[str, Topic | Fault]:
    """Ask the brokers of ``settings``, as Kafka calls them, about topics. Raises other errors of Kafka as they are."""
    with door(DOOR):
        wanted = tuple(names)
        with closing(_client(spark, settings)) as admin:
            options = java_class(spark, f"{_ADMIN}.DescribeTopicsOptions")()
            rights = options.includeAuthorizedOperations(True)  # noqa: FBT003  Java has no names
            asked = admin.describeTopics(_java_list(spark, wanted), rights).topicNameValues()
            found = {name: _answer(asked.get(name)) for name in wanted}
            there = {name: topic for name, topic in found.items() if isinstance(topic, Topic)}
            return {**found, **{name: replace(there[name], compacted=True) for name in _compacted(spark, admin, there)}}


def earliest_offsets(spark: SparkSession, settings: Mapping[str, str], partitions: Iterable[str]) -> dict[str, int]:
    """Ask the brokers for the oldest offset of each partition, such as ``clicks-3``. Raises Kafka's errors."""
    with door(DOOR), closing(_client(spark, settings)) as admin:
        wanted, earliest = java_class(spark, "java.util.HashMap")(), f"{_ADMIN}.OffsetSpec"
        for name in partitions:
            wanted.put(_partition(spark, name), java_class(spark, earliest).earliest())
        found = admin.listOffsets(wanted).all().get()
        return {name: int(found.get(_partition(spark, name)).offset()) for name in partitions}


def _partition(spark: SparkSession, name: str) -> Any:  # noqa: ANN401  a Java object
    topic, _, number = name.rpartition("-")
    return java_class(spark, "org.apache.kafka.common.TopicPartition")(topic, int(number))


def _client(spark: SparkSession, settings: Mapping[str, str]) -> Any:  # noqa: ANN401  a Java object
    given = java_class(spark, "java.util.HashMap")()
    for name, value in {**_BOUNDS, **settings}.items():
        given.put(name, value)
    scala = java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap(given)
    updater = java_class(spark, "org.apache.spark.kafka010.KafkaConfigUpdater")("sessionizer", scala)
    return java_class(spark, f"{_ADMIN}.AdminClient").create(updater.setAuthenticationConfigIfNeeded().build())


def _compacted(spark: SparkSession, admin: Any, names: Iterable[str]) -> set[str]:  # noqa: ANN401  a Java object
    """Find the topics that the broker compacts. It tells no client without the right DESCRIBE_CONFIGS."""
    resource = java_class(spark, "org.apache.kafka.common.config.ConfigResource")
    kind = java_class(spark, "org.apache.kafka.common.config.ConfigResource$Type").forId(_TOPIC)
    resources = {name: resource(kind, name) for name in names}
    asked = admin.describeConfigs(_java_list(spark, resources.values())).values()
    found = set()
    for name, each in resources.items():
        try:
            policy = asked.get(each).get().get("cleanup.policy")
        except Py4JJavaError as error:
            _fault(error)
            continue
        if policy is not None and "compact" in str(policy.value()):
            found.add(name)
    return found


def _java_list(spark: SparkSession, items: Iterable[Any]) -> Any:  # noqa: ANN401  a Java object
    found = java_class(spark, "java.util.ArrayList")()
    for item in items:
        found.add(item)
    return found


def _answer(future: Any) -> Topic | Fault:  # noqa: ANN401  a Java object
    try:
        described = future.get()
    except Py4JJavaError as error:
        return _fault(error)
    rights = described.authorizedOperations()
    known = set() if rights is None else {str(right) for right in rights.toArray()}
    topic = str(described.topicId().toString())
    # a broker that does not support ids says zero
    return Topic(None if topic == "A" * 22 else topic, readable=not known or "READ" in known)


def _fault(error: Py4JJavaError) -> Fault:
    """Return Kafka's answer about a topic. Raises any other ``error`` as it is."""
    cause = error.java_exception
    while cause is not None:
        name = str(cause.getClass().getSimpleName())
        if any(sign in name for sign in _JUDGED):
            return Fault(name, str(cause.getMessage()))
        cause = cause.getCause()
    raise error
