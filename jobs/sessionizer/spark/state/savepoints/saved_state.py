"""Savepoints in Spark: canonical ones made and counted, and the state in a savepoint of either kind.

A canonical one yields the logs of its key groups, or its rows if this release keeps blobs in another form. A native one
is a checkpoint of one batch: its state is read by Spark's own reader, from a copy that names the place where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from sessionizer.checkpoint.files import SeenFile, read_seen_files
from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.control.records.process_records import this_process
from sessionizer.core.definition.rules import SessionRules
from sessionizer.core.key_group.contents import would_be_schema, would_be_sessions
from sessionizer.core.key_group.merging import ends_of_open
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import KEY_GROUP, log_of
from sessionizer.core.wire.codec import decode_log
from sessionizer.core.wire.erased_keys import ErasedKeys
from sessionizer.core.wire.rows import INITIAL, REVISION
from sessionizer.core.wire.schema import CLIENT
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import remove_tree
from sessionizer.home.local_files import close_to_others
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import (
    CHECKPOINT,
    GROUP_LOGS,
    OPEN_EVENTS,
    SEEN_FILES,
    TIMEOUTS,
    SavepointHome,
    StreamHome,
)
from sessionizer.lineage.fingerprint import JAVA
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.migrations.graph import revisions_before_head
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.session import jvm_version
from sessionizer.spark.sinks.write import few_blobs_at_a_time
from sessionizer.spark.state.open_events import (
    FirstLog,
    KeptState,
    bring_to_head,
    count_erased_in_logs,
    describe_state,
    drop_erased_events,
    drop_erased_from_logs,
    first_log_of,
    label_groups,
    log_blobs,
    log_rows,
    map_logs,
    number_groups,
    open_event_schema,
    open_events_of,
    open_payload,
    read_state_timeouts,
    reading_state,
    whole_logs,
)
from sessionizer.state.lineages.committed_batch import FILES, CommittedBatch
from sessionizer.state.savepoints.listing import UseMark, examine_savepoint, read_use_mark, write_data_record
from sessionizer.state.savepoints.manifest import (
    Counts,
    Manifest,
    SavepointKind,
    SavepointState,
    read_saved_spec,
    write_manifest,
)
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, SavepointWriter, install, require_same_line
from sessionizer.state.savepoints.verification import data_files
from sessionizer.stream_spec.spec_folder import parse_recorded_spec


def savepoint_table(spark: SparkSession, home: SavepointHome, part: str) -> DataFrame:
    """Read a table of a canonical savepoint."""
    return spark.read.format("delta").load(uri_of(home.part(part)))


def has_table(manifest: Manifest, part: str) -> bool:
    """Whether a savepoint has the table. Older ones have no logs, and those before an upgrade have no rows."""
    return any(file.path.startswith(f"{part}/") for file in manifest.files)


def read_saved_logs(spark: SparkSession, home: SavepointHome, key_groups: int) -> DataFrame:
    """Read the logs of the ``key_groups`` of a canonical savepoint, by ``rows.INITIAL``."""
    blobs = savepoint_table(spark, home, GROUP_LOGS).select("key_group", "number", "of", "blob")
    return label_groups(blobs, key_groups)


def saved_events(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> DataFrame:
    """Read the open events by ``canonical_schema`` of its revision. Evaluate it in ``few_blobs_at_a_time``."""
    if has_table(manifest, OPEN_EVENTS):
        return savepoint_table(spark, home, OPEN_EVENTS)
    groups, shape = manifest.key_groups, open_event_schema(manifest.kept)
    return open_events_of(whole_logs(read_saved_logs(spark, home, groups), groups), groups, shape)


def saved_timeouts(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> dict[str, int]:
    """Read the clients' timeouts (ms) that were changed before a canonical savepoint."""
    if manifest.counts is not None and not manifest.counts.timeouts:
        return {}  # most streams change none, and to read an empty table takes a second
    return {row.client: row.timeout_ms for row in savepoint_table(spark, home, TIMEOUTS).collect()}


def open_sessions(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> DataFrame:
    """Return the sessions that are open in a savepoint, by ``would_be_schema``, with their key group."""
    payload = open_payload(manifest.kept)
    rules = rules_of(read_saved_spec(home, manifest))
    shape = from_arrow_schema(would_be_schema(payload), prefer_timestamp_ntz=False)

    def sessions(rows: pa.Table) -> pa.Table:
        found = would_be_sessions(log_of(rows), rules, payload)
        return pa.concat_tables([would_be_schema(payload).empty_table(), *found])

    return saved_events(spark, home, manifest).groupBy(KEY_GROUP).applyInArrow(sessions, shape)


class SavedState(NamedTuple):
    """Open events as logs, as a state keeps them, or by ``canonical_schema``, and changed timeouts (ms)."""

    open_events: DataFrame | KeptState | FirstLog
    timeouts: Mapping[str, int]


@contextmanager
def read_saved_state(
    spark: SparkSession, stream: StreamHome, savepoint: SavepointHome, manifest: Manifest, key_groups: int
) -> Iterator[SavedState]:
    """Read the state in a complete savepoint for a lineage of ``key_groups``, for as long as the context lasts.

    For a native one a copy is in the ``stream``'s data meanwhile. A copy that a kill left there is replaced. Raises
    UnusableSavepoint for one of another line of Spark or an unknown revision, UnwritablePath, DiskFull.
    """
    if manifest.revision not in (REVISION, *revisions_before_head()):
        cause = f"its state has revision {manifest.revision}, and this release reads {REVISION}"
        raise UnusableSavepoint(manifest.id, f"{cause}. Restore it with the release that made it")
    if manifest.kind is SavepointKind.CANONICAL:
        events = _open_events(spark, savepoint, manifest, key_groups)
        yield SavedState(events, saved_timeouts(spark, savepoint, manifest))
        return
    require_same_line(manifest, spark.version)
    copy = stream.unpacked / savepoint.id
    try:
        install(savepoint, manifest, copy)
        close_to_others(stream.unpacked)
        shape = open_event_schema(manifest.kept)
        state = KeptState(copy, manifest.batch_id, manifest.key_groups, shape, manifest.revision)
        with reading_state(spark):
            timeouts = read_state_timeouts(spark, state)
        yield SavedState(state, timeouts)
    finally:
        remove_tree(copy)


def _open_events(
    spark: SparkSession, savepoint: SavepointHome, manifest: Manifest, key_groups: int
) -> DataFrame | FirstLog:
    """Return the logs if the lineage can take them as they are, else the events."""
    if has_table(manifest, GROUP_LOGS) and manifest.revision == REVISION and manifest.key_groups == key_groups:
        return first_log_of(read_saved_logs(spark, savepoint, key_groups), key_groups)
    found = saved_events(spark, savepoint, manifest)
    return bring_to_head(found, manifest.revision, open_event_schema(manifest.kept))


def read_saved_files(spark: SparkSession, savepoint: SavepointHome, manifest: Manifest) -> tuple[SeenFile, ...]:
    """Return the files that the source had read after the batch, if it is a folder of files."""
    if manifest.position.format != FILES:
        return ()
    if manifest.kind is SavepointKind.NATIVE:
        return tuple(read_seen_files(savepoint.part(CHECKPOINT), manifest.batch_id))
    rows = savepoint_table(spark, savepoint, SEEN_FILES).collect()
    return tuple(SeenFile(row.uri, row.changed_at_ms) for row in rows)


_OF_GROUP: Final = pa.schema([(name, pa.int64()) for name in ("events", "keys", "sessions", "due_ms")])
_MAKES: Final = "makes"


class Recount(NamedTuple):
    """The counts of a savepoint, from one of its tables of open events and the other parts, and the earliest end."""

    counts: Counts
    earliest_due_ms: int | None


def count_logs(logs: DataFrame, rules: SessionRules) -> DataFrame:
    """Return logs, in the form of ``log_blobs``, by ``rows.INITIAL``, with counts beside each first blob."""

    def number_and_count(label: int, blobs: list[bytes]) -> Iterator[pa.RecordBatch]:
        makes = pa.array([_counts(decode_log(blobs), rules)], pa.struct(_OF_GROUP))
        for number, row in enumerate(log_rows(label, blobs)):
            yield row.append_column(_MAKES, pa.nulls(1, makes.type) if number else makes)

    shape = f"{INITIAL}, {_MAKES} {from_arrow_schema(_OF_GROUP).simpleString()}"
    return map_logs(logs, number_and_count, shape)


def sum_counts(logs: DataFrame, timeouts: int, seen_files: int) -> Recount:
    """Sum up the counts of the logs of ``count_logs``, beside those of the other parts."""
    return _sum_groups(logs.select(f"{_MAKES}.*"), timeouts, seen_files)


def _sum_groups(of_groups: DataFrame, timeouts: int, seen_files: int) -> Recount:
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("events", "keys", "sessions")]
    found = of_groups.agg(*sums, F.count("events").alias("groups"), F.min("due_ms").alias("due_ms")).first()
    assert found is not None  # noqa: S101  an aggregate of all has one row
    counts = Counts(found["events"], found["keys"], found["groups"], found["sessions"], timeouts, seen_files)
    return Recount(counts, found["due_ms"])


def recount(spark: SparkSession, home: SavepointHome, manifest: Manifest) -> dict[str, Recount]:
    """Count a canonical savepoint by each of its tables of open events, in the way it was counted when it was made."""
    others = [savepoint_table(spark, home, part).count() for part in (TIMEOUTS, SEEN_FILES)]
    rules, found, shape = rules_of(read_saved_spec(home, manifest)), dict[str, Recount](), from_arrow_schema(_OF_GROUP)

    def count_rows(rows: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([_counts(log_of(rows), rules)], schema=_OF_GROUP)

    def count_log(_: int, blobs: list[bytes]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([_counts(decode_log(blobs), rules)], schema=_OF_GROUP)

    if has_table(manifest, OPEN_EVENTS):
        # a key group is opened whole, as in a merge
        of_groups = savepoint_table(spark, home, OPEN_EVENTS).groupBy(KEY_GROUP).applyInArrow(count_rows, shape)
        found[OPEN_EVENTS] = _sum_groups(of_groups, *others)
    if has_table(manifest, GROUP_LOGS):
        logs = whole_logs(read_saved_logs(spark, home, manifest.key_groups), manifest.key_groups)
        with few_blobs_at_a_time(spark):
            found[GROUP_LOGS] = _sum_groups(map_logs(logs, count_log, shape), *others)
    return found


def _counts(log: Sequence[pa.Table], rules: SessionRules) -> dict[str, int | None]:
    """Count one group's log, by ``_OF_GROUP``. Duplicates are events, but of no session."""
    ends = ends_of_open(log, rules)
    keys = pa.chunked_array([chunk for table in log for chunk in table.column(schema.KEY).chunks], pa.string())
    return {
        "events": sum(table.num_rows for table in log),
        "keys": len(keys.unique()),
        "sessions": ends.sessions,
        "due_ms": ends.due_ms,
    }


_READ_WHOLE: Final = {"delta.dataSkippingNumIndexedCols": "0"}
"""Table property that turns statistics off: they take a third of the time, and readers do not search by values."""
_FILES_PER_TABLE: Final = 64
"""Largest number of files of a table. A savepoint is read whole, and fewer files mean fewer requests."""
_PAIRS: Final = {TIMEOUTS: ["client", "timeout_ms"], SEEN_FILES: ["uri", "changed_at_ms"]}
_ANEW: Final = "e"
"""End of the id of a savepoint that was written anew after an erasure."""


def make_savepoint(
    spark: SparkSession,
    stream: StreamHome,
    committed: CommittedBatch,
    asked: SavepointRequest,
    after: Callable[[str], None],
) -> Manifest:
    """Make the requested savepoint, or return the one that is complete already under its id.

    ``after`` is called with each step that is over. Raises BatchOutrun, UnusableSavepoint while another process makes
    it, UnwritablePath, DiskFull and Spark's errors. All of that is noted in the savepoint, which is failed then.
    """
    writer = SavepointWriter(stream, committed, asked, after)
    done = writer.begin()
    if done is not None:
        return done
    with writer.noting_failure():
        state, home, seen = describe_state(committed), writer.home, committed.seen_files
        spec = parse_recorded_spec(committed.spec, SPEC_FILE.of(stream, committed.lineage).path)
        with reading_state(spark):
            logs = number_groups(count_logs(log_blobs(spark, state), rules_of(spec)), state.key_groups)
            _write(home, GROUP_LOGS, logs.coalesce(_FILES_PER_TABLE), compression="none")  # each blob is already
            after("logs of the key groups")
            timeouts = read_state_timeouts(spark, state)
        _write_pairs(spark, home, TIMEOUTS, timeouts.items())
        held = sum_counts(savepoint_table(spark, home, GROUP_LOGS), len(timeouts), len(seen))
        committed.require_unchanged()  # from here on the checkpoint may lose the batch
        after("state")
        if asked.with_rows:  # those of the logs that were written, so that the state is read once
            partitions = min(int(committed.settings[PARTITIONS]), _FILES_PER_TABLE)
            with few_blobs_at_a_time(spark):
                logs = whole_logs(read_saved_logs(spark, home, state.key_groups), partitions)
                _write(home, OPEN_EVENTS, open_events_of(logs, state.key_groups, state.events))
            after("open events")
        _write_pairs(spark, home, SEEN_FILES, ((file.uri, file.changed_at) for file in seen))
        after("seen files")
        return writer.complete(SavepointKind.CANONICAL, *held, {JAVA: jvm_version(spark)})


def count_erased_in_savepoint(spark: SparkSession, home: SavepointHome, manifest: Manifest, erased: ErasedKeys) -> int:
    """Count the events of ``erased`` keys in the logs of a canonical savepoint, also deleted ones."""
    with few_blobs_at_a_time(spark):
        logs = whole_logs(read_saved_logs(spark, home, manifest.key_groups), min(manifest.key_groups, _FILES_PER_TABLE))
        return count_erased_in_logs(logs, erased, with_deleted=True)


def rewrite_savepoint(spark: SparkSession, home: SavepointHome, manifest: Manifest, erased: ErasedKeys) -> str | None:
    """Write a canonical savepoint anew beside itself, without the events of ``erased`` keys. Returns the new id.

    None: it holds no event of them. The savepoint itself stays, for the caller to remove. The next call completes a
    killed one. Raises UnusableSavepoint if another process writes it, UnwritablePath, DiskFull and Spark's errors.
    """
    parts, groups = min(manifest.key_groups, _FILES_PER_TABLE), manifest.key_groups
    new = SavepointHome.of(home.root.parent, f"{home.id}{_ANEW}")
    found = examine_savepoint(new, epoch_ms())
    if found.is_complete:
        return new.id
    maker = found.begun.process if found.begun and found.state is SavepointState.MAKING else this_process()
    if maker != this_process():
        raise UnusableSavepoint(new.id, f"process {maker.pid} on {maker.host} makes it. Type the erase again later")
    if not count_erased_in_savepoint(spark, home, manifest, erased):
        return None
    with few_blobs_at_a_time(spark):
        logs = whole_logs(read_saved_logs(spark, home, groups), parts)
        remove_tree(new.root)
        begun = read_use_mark(home.begun)
        write_data_record(new.begun, UseMark.now(begun.why if begun else "erasure"))
        rules = rules_of(read_saved_spec(home, manifest))
        kept = whole_logs(drop_erased_from_logs(logs, erased), parts)
        _write(new, GROUP_LOGS, number_groups(count_logs(kept, rules), groups).coalesce(parts), compression="none")
        if has_table(manifest, OPEN_EVENTS):
            _write(new, OPEN_EVENTS, drop_erased_events(savepoint_table(spark, home, OPEN_EVENTS), erased))
    timeouts = {
        client: ms for client, ms in saved_timeouts(spark, home, manifest).items() if not erased.names(CLIENT, client)
    }
    _write_pairs(spark, new, TIMEOUTS, timeouts.items())
    _write(new, SEEN_FILES, savepoint_table(spark, home, SEEN_FILES).coalesce(1))
    seen = 0 if manifest.counts is None else manifest.counts.seen_files
    counts, due = sum_counts(savepoint_table(spark, new, GROUP_LOGS), len(timeouts), seen)
    files = tuple(data_files(new))
    write_manifest(new, replace(manifest, id=new.id, counts=counts, earliest_due_ms=due, files=files))
    return new.id


def _write_pairs(spark: SparkSession, home: SavepointHome, part: str, pairs: Iterable[tuple[str, int]]) -> None:
    """Write a small table: clients with their timeouts, or files that count as read with the times of their change."""
    rows = [dict(zip(_PAIRS[part], pair, strict=True)) for pair in pairs]
    shape = pa.schema([*zip(_PAIRS[part], (pa.string(), pa.int64()), strict=True)])
    _write(home, part, spark.createDataFrame(pa.Table.from_pylist(rows, shape)).coalesce(1))


def _write(home: SavepointHome, part: str, frame: DataFrame, compression: str = "snappy") -> None:
    writer = frame.write.format("delta").mode("errorifexists").options(**_READ_WHOLE, compression=compression)
    writer.save(uri_of(home.part(part)))
