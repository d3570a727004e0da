"""Checks of the topics of a source before anything starts: that they exist, may be read, and are the same as before."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionizer.causes.table import SCHEMA_CHANGE
from sessionizer.checkpoint.log_entries import EVENTS, list_begun_batches, read_begun_batch, read_planned_batch
from sessionizer.errors import InvalidSpec, QueryFailed, SourceForbidden, SourceMissing
from sessionizer.home.roots import resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.driver_environment import plain
from sessionizer.lineage.kept_spec import choose_known_ids, read_source_ids, require_same_source
from sessionizer.spark.ingest.source import check_reachable, kafka_options
from sessionizer.spark.internals.delta_log import column_ids, table_id
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.spark.internals.kafka_admin import Fault, Topic, describe_topics, earliest_offsets
from sessionizer.stream_spec.document.source import KafkaSource, Source
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.sql_words import NAMES, WordKind, words_of

FIELD: Final = "source.topic"
NOT_COMPACTED: Final = (
    "a topic without compaction, because the broker removes records that the stream has not read if a newer one has "
    "their key. Set its cleanup.policy to delete, or source.accept_compaction to true"
)
ASKED: Final = 3
"""Number of requests for a missing topic, because a broker that has just started may not know of it yet."""
Answers: TypeAlias = "Mapping[str, Topic | Fault]"
ColumnIds: TypeAlias = "Mapping[tuple[str, ...], str]"
"""The physical name of each column and nested field."""
_MISSING: Final = frozenset({"UnknownTopicOrPartitionException", "InvalidTopicException"})


def topic_ids(spark: SparkSession, stream: str, source: KafkaSource) -> dict[str, str]:
    """Return the id of each topic with one. Raises SourceUnreachable, SourceMissing, SourceForbidden, InvalidSpec."""
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
    """Return the oldest kept offset of partitions such as ``clicks-3``. Raises InvalidSpec, and Kafka's errors."""
    return {} if plain() else earliest_offsets(spark, kafka_settings(source), partitions)


def topics_of(source: KafkaSource) -> tuple[str, ...]:
    """Return the names of its topics, as the spec lists them."""
    return tuple(dict.fromkeys(source.topic.split(",")))


def kafka_settings(source: KafkaSource) -> dict[str, str]:
    """Return the settings of Kafka's own clients among the options. Raises InvalidSpec for an unset variable."""
    options, prefix = kafka_options(source).items(), "kafka."
    return {name[len(prefix) :]: value for name, value in options if name.lower().startswith(prefix)}


def ask_until_settled(ask: Callable[[], Answers], pause_s: float = 1.0) -> Answers:
    """Return the answers of ``ask``, repeated while a topic is missing."""
    for _ in range(ASKED - 1):
        answers = ask()
        if not any(isinstance(answer, Fault) and answer.exception in _MISSING for answer in answers.values()):
            return answers
        time.sleep(pause_s)
    return ask()


def require_ids(stream: str, brokers: str, answers: Answers) -> dict[str, str]:
    """Return the ids in ``answers``. Raises SourceMissing, SourceForbidden for the first topic that cannot be read."""
    found = {}
    for name, answer in answers.items():
        if isinstance(answer, Fault):
            if answer.exception in _MISSING:
                raise SourceMissing(stream, FIELD, name, brokers)
            raise SourceForbidden(stream, FIELD, name, brokers, f"{answer.exception}: {answer.detail}")
        if not answer.readable:
            raise SourceForbidden(stream, FIELD, name, brokers, "it has the right DESCRIBE and lacks READ")
        if answer.id is not None:
            found[name] = answer.id
    return found


READ_BY_PRESENT_COLUMNS: Final = (
    "spark.databricks.delta.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled"
)
"""Delta's setting to read on after columns were renamed or dropped. Unsafe without ``require_same_columns``."""


def source_ids(spark: SparkSession, stream: str, source: Source, platform: Path) -> dict[str, str]:
    """Ask for the id of each topic or table, by its name. Raises SourceUnreachable, SourceMissing, SourceForbidden."""
    check_reachable(source)
    match source.format:
        case "kafka":
            return topic_ids(spark, stream, source)
        case "delta":
            with suppress(PySparkException, JavaError):  # the reader that comes next says why it cannot be read
                if (found := table_id(spark, resolve_place(source.path, platform))) is not None:
                    return {source.path: found}
    return {}


def require_source(spark: SparkSession, home: StreamHome, spec: StreamSpec, lineage: str | None) -> dict[str, str]:
    """Ask for the ids of the source, which ``lineage`` must have read.

    Raises SourceUnreachable, SourceMissing, SourceForbidden, SourceReplaced.
    """
    now = source_ids(spark, spec.name, spec.source, home.platform)
    if lineage is not None and (newest := read_begun_batch(home.checkpoint(lineage))) is not None:
        offset = read_planned_batch(home.checkpoint(lineage), newest).ends.get(EVENTS)
        known = choose_known_ids(read_source_ids(home, lineage), spec.source.model_dump(), offset)
        require_same_source(spec.name, known, now)
    return now


def require_same_columns(spark: SparkSession, home: StreamHome, spec: StreamSpec, lineage: str | None) -> ColumnIds:
    """Let Delta read on after columns were renamed or dropped that ``spec`` does not use.

    Delta reads each file by the columns that the table has when the query starts. Rows that ``lineage`` has not read
    would be read wrong only if a name of a used column now means another column. Raises QueryFailed then. Returns the
    columns, which each batch must find as they are: empty if the table has no column mapping.
    """
    if spec.source.format != "delta" or plain():
        return {}
    location = resolve_place(spec.source.path, home.platform)
    # the newest batch may not be committed: its rows are then read again
    begun = sorted(list_begun_batches(home.checkpoint(lineage)))[-2:] if lineage else []
    offset = read_planned_batch(home.checkpoint(lineage), begun[0]).ends.get(EVENTS) if lineage and begun else None
    version = int(offset["reservoirVersion"]) if offset else None
    try:
        before, now = column_ids(spark, location, version), column_ids(spark, location)
    except (PySparkException, JavaError):
        return {}  # the query says what is wrong with the log
    if (other := find_other_column(spec, before, now)) is not None:
        detail = f"{other!r} is another column of the source than before version {version}, which is not read yet"
        raise QueryFailed(spec.name, SCHEMA_CHANGE, detail)
    spark.conf.set(READ_BY_PRESENT_COLUMNS, "true")
    return {} if all(path[-1] == name.lower() for path, name in now.items()) else now


def find_other_column(spec: StreamSpec, before: ColumnIds, now: ColumnIds) -> str | None:
    """Return a column that the mapping may use, and whose name has another column behind it ``now``."""
    mapping = spec.mapping.model_dump(exclude={"payload"}, exclude_none=True)
    words = [word for sql in (*mapping.values(), *spec.mapping.payload.values()) for word in words_of(str(sql))]
    used = {word.name for word in words if word.kind in NAMES}
    uses_any = any(word.kind is WordKind.UNKNOWN for word in words)
    changed = (path for path, name in before.items() if now.get(path, name) != name)
    return next((".".join(path) for path in changed if uses_any or path[0] in used), None)
