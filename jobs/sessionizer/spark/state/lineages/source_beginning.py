"""Source of a new lineage: where it begins to read, and what the source has lost.

The query over the source ends when it has planned all there is. It leaves notes in a checkpoint that is thrown away:
the offsets from which it began and the files that exist. A lineage takes its position in this form. Delta's source
notes no beginning, its position is a version.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.checkpoint.files import SeenFile, files_of_batch, read_seen_files
from sessionizer.checkpoint.log_entries import initial_offset, read_begun_batch, read_last_commit
from sessionizer.errors import InvalidSpec, SessionizerError, SourceMissing, SourceReplaced, TransientError
from sessionizer.home.data_files import commits_of, data_exists, list_added_files, read_actions
from sessionizer.home.roots import DataPath, folder_at, is_uri, resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import choose_known_ids, replaced_names, require_same_source
from sessionizer.spark.ingest.guard import EVENT_TIME, guard
from sessionizer.spark.ingest.source import check_reachable, read_source
from sessionizer.spark.ingest.topics import source_ids, topics_of
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.state.commands.moves import Edge, Start, UnreadPart
from sessionizer.state.lineages.committed_batch import CommittedBatch, Offset
from sessionizer.state.restores.ranges import (
    Continuation,
    continuation_in_folder,
    going_on_in_table,
    going_on_in_topics,
)
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource, Source
from sessionizer.stream_spec.document.stream import StreamSpec

_ANY_ROW: Final = 1_000_000
"""Size in bytes of a row that is not read."""
_SAMPLE: Final = 1_000
"""Number of records of each partition of Kafka that are looked at."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The ``offset`` as Spark writes it, None for all there is, or the files ``seen``. ``described``: as text."""

    offset: Offset
    seen: tuple[SeenFile, ...]
    described: str


def beginning_of(spark: SparkSession, source: Source, home: Path, start: Start) -> Beginning:
    """Find the position of ``source`` at ``start``. Raises SourceUnreachable, InvalidSpec."""
    check_reachable(source)
    match source.format:
        case "files":
            found = files_there(spark, source, home)
            at = {Edge.EARLIEST: -math.inf, Edge.LATEST: math.inf, None: start.at or 0}[start.edge]
            seen = tuple(file for file in found if file.changed_at < at)
            return Beginning(None, seen, f"{len(found) - len(seen):,} of {len(found):,} files, and those to come")
        case "delta":
            return _beginning_of_delta(spark, source, home, start)
        case "kafka":
            offset = offsets_at(spark, source, home, start)
            return Beginning(offset, (), ", ".join(f"{topic} {ends}" for topic, ends in sorted(offset.items())))
        case "socket":
            return Beginning(None, (), "what comes from now on")


def first_event_at(spark: SparkSession, spec: StreamSpec, home: Path, beginning: Beginning) -> int | None:
    """Find the earliest event time (epoch ms) in samples of Kafka's partitions, None for others."""
    source = spec.source
    if source.format != "kafka" or not spec.rules.clock.has_watermark:
        return None
    earliest, ends = (offsets_at(spark, source, home, Start(edge=edge)) for edge in Edge)
    asked: Mapping[str, Mapping[str, int]] = beginning.offset or {}
    # a topic that stays may have lost records or got partitions since, and Spark reads only what is there
    begins = {
        topic: {
            part: min(max(asked.get(topic, {}).get(part, 0), begin), ends[topic][part]) for part, begin in of.items()
        }
        for topic, of in earliest.items()
    }
    until = {
        topic: {part: min(ends[topic][part], begin + _SAMPLE) for part, begin in of.items()}
        for topic, of in begins.items()
    }
    span = {"startingOffsets": json.dumps(begins), "endingOffsets": json.dumps(until)}
    sample = source.model_copy(update={"options": {**source.options, **span}})
    rows = guard(read_source(spark, sample, home, spec.rules.max_event_bytes, stream=False), spec).rows
    first = rows.agg(F.unix_millis(F.min(EVENT_TIME))).first()
    return None if first is None else first[0]


def unread_of(
    spark: SparkSession, source: Source, home: Path, committed: CommittedBatch, kept: Collection[str] = ()
) -> UnreadPart:
    """Count the items of ``source`` that the stream has not read, without the topics that are ``kept``."""
    if source.format == "kafka" and kept:
        left = [topic for topic in topics_of(source) if topic not in kept]
        if not left:
            return UnreadPart("records", 0)
        source = source.model_copy(update={"topic": ",".join(left)})
    unit = {"files": "files", "delta": "versions", "kafka": "records", "socket": "lines"}[source.format]
    try:
        check_reachable(source)
        return UnreadPart(unit, _unread(spark, source, home, committed), "a socket keeps nothing")
    except SessionizerError as error:
        return UnreadPart(unit, None, str(error))
    except (PySparkException, JavaError) as error:  # a topic or table that is gone, which is why the user switches
        return UnreadPart(unit, None, java_message(error))


def _unread(spark: SparkSession, source: Source, home: Path, committed: CommittedBatch) -> int | None:
    offset = committed.position.offset
    match source.format:
        case "files":
            read = {file.uri for file in committed.seen_files}
            return sum(file.uri not in read for file in files_there(spark, source, home))
        case "delta":
            end = _newest_version(spark, resolve_place(source.path, home)) + 1
            return _unread_before(end, int(offset["reservoirVersion"]) if offset else 0)
        case "kafka":
            ends = offsets_at(spark, source, home, Start(edge=Edge.LATEST))
            known = offset or offsets_at(spark, source, home, Start(edge=Edge.EARLIEST))
            return sum(
                _unread_before(end, known.get(topic, {}).get(partition, 0))
                for topic, partitions in ends.items()
                for partition, end in partitions.items()
            )
        case "socket":
            return None


def _unread_before(end: int, position: int) -> int:
    """Count the items from ``position`` on. One behind the end is of a topic or table that was made anew."""
    return end - position if position <= end else end


def _beginning_of_delta(spark: SparkSession, source: DeltaSource, home: Path, start: Start) -> Beginning:
    location = resolve_place(source.path, home)
    if start.edge is Edge.EARLIEST:
        return Beginning(None, (), "all rows that the table has, and those to come")
    table = DeltaTable.forPath(spark, location)
    version = _newest_version(spark, location) + 1
    if start.at is not None:
        since = table.history().where(F.unix_millis("timestamp") >= start.at).agg(F.min("version")).first()
        version = version if since is None or since[0] is None else int(since[0])
    (detail,) = table.detail().select("id").collect()
    offset = {"sourceVersion": 1, "reservoirId": detail.id, "reservoirVersion": version}
    return Beginning({**offset, "index": -1, "isStartingVersion": False}, (), f"version {version} of the table")


def _newest_version(spark: SparkSession, location: str) -> int:
    newest = DeltaTable.forPath(spark, location).history(1).select("version").first()
    return -1 if newest is None else int(newest.version)


def offsets_at(spark: SparkSession, source: KafkaSource, home: Path, start: Start) -> dict[str, dict[str, int]]:
    """Return the offsets by topic and partition. One without a record since the moment begins at its end."""
    moment = {"startingTimestamp": str(start.at), "startingOffsetsByTimestampStrategy": "latest"}
    edge = "latest" if start.edge is Edge.LATEST else "earliest"
    options = source.options if start.at is None else {**source.options, **moment}
    begun = source.model_copy(update={"options": options, "starting_offsets": edge})
    with _plan_query(spark, begun, home) as checkpoint:
        found: dict[str, dict[str, int]] = initial_offset(checkpoint)
    return found


def files_there(spark: SparkSession, source: FilesSource, home: Path) -> list[SeenFile]:
    """Return the files that are there now."""
    with _plan_query(spark, source, home) as checkpoint:
        newest = read_begun_batch(checkpoint)
        return [] if newest is None else read_seen_files(checkpoint, newest)


@contextmanager
def _plan_query(spark: SparkSession, source: Source, home: Path) -> Iterator[Path]:
    """Yield the checkpoint of a query that has planned all there is in one batch, and evaluated nothing."""
    rows = read_source(spark, source, home, _ANY_ROW, stream=True)
    with tempfile.TemporaryDirectory() as folder:
        writer = rows.writeStream.foreachBatch(lambda _batch, _id: None).trigger(once=True)
        writer.option("checkpointLocation", f"file://{folder}").start().awaitTermination()
        yield Path(folder)


_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.")


def going_on(
    spark: SparkSession,
    home: StreamHome,
    spec: StreamSpec,
    offset: Offset,
    noted: Mapping[str, str],
    lineage: str | None = None,
) -> tuple[Continuation, dict[str, str]]:
    """Return where the source of ``spec`` can be read on after ``offset``, and its ids now.

    ``noted``: the recorded ids of the topics that were read. ``lineage``: the one whose begun batch reads files. Raises
    SourceUnreachable, SourceMissing, SourceForbidden.
    """
    source = spec.source
    now = source_ids(spark, spec.name, source, home.platform)
    known = choose_known_ids(noted, source.model_dump(), offset)
    others = replaced_names(known, now)
    match source.format:
        case "kafka" if offset:
            earliest, latest = (offsets_at(spark, source, home.platform, Start(edge=edge)) for edge in Edge)
            same = [name for name in known if name in now]
            return going_on_in_topics(offset, earliest, latest, others, same), now
        case "delta" if offset:
            table = folder_at(resolve_place(source.path, home.platform))
            return _continue_in_table(table, offset, replaced=bool(others)), now
        case "kafka":
            return Continuation(offset), now
        case "delta":
            return Continuation(None), now
        case "files":
            checkpoint = home.checkpoint(lineage) if lineage else None
            newest = read_begun_batch(checkpoint) if checkpoint else None
            if checkpoint is None or newest is None or newest == read_last_commit(checkpoint):
                return Continuation(offset), now
            begun = files_of_batch(checkpoint, newest)
            there = [uri for uri in begun if data_exists(folder_at(uri))]
            return continuation_in_folder(offset, begun, there), now
        case "socket":
            raise InvalidSpec("--accept-loss", "given", "Omit it, because a socket keeps no events")


def _continue_in_table(table: DataPath, offset: Mapping[str, Any], *, replaced: bool) -> Continuation:
    commits, holes = commits_of(table), dict[int, int]()
    for version, commit in () if replaced else commits.items():
        if version >= int(offset["reservoirVersion"]):
            # a compaction rewrites rows that the stream has in their first files, so Delta's source skips its files
            adds = (add for add in list_added_files(read_actions(commit)) if add["dataChange"])
            places = (unquote(str(add["path"])) for add in adds)
            gone = sum(not data_exists(folder_at(place) if is_uri(place) else table / place) for place in places)
            holes |= {version: gone} if gone else {}
    oldest = 0 if 0 in commits else min(commits_of(table, _CHECKPOINT), default=0)
    return going_on_in_table(offset, set(commits), holes, replaced=replaced, oldest=oldest)


def list_lost_events(
    spark: SparkSession, home: StreamHome, spec: StreamSpec, offset: Offset, noted: Mapping[str, str]
) -> tuple[str, ...]:
    """List the lost events after ``offset``, none if the source does not answer: a start reports it."""
    if spec.source.format not in ("kafka", "delta") or not offset:
        return ()
    try:
        if spec.source.format == "kafka":
            return going_on(spark, home, spec, offset, noted)[0].lost
        now = source_ids(spark, spec.name, spec.source, home.platform)
        require_same_source(spec.name, choose_known_ids(noted, spec.source.model_dump(), offset), now)
    except (SourceMissing, SourceReplaced) as error:
        return (str(error),)
    except TransientError:
        return ()
    return ()
