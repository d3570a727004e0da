"""New lineage that begins with a state: started in a batch of its own, read back, compared, then activated.

Rows are divided into blobs where they are read, so that Spark shuffles blobs and not events. The lineage before is not
touched, and no driver reads the new one before its last step (docs/adr/0084).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.checkpoint.files import write_start_position
from sessionizer.checkpoint.log_entries import PARTITIONS, next_watermark
from sessionizer.core.key_group.group_load import OpenInGroup
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.canonical import pack_shares, shares
from sessionizer.core.wire.erased_keys import NOBODY_ERASED, ErasedKeys
from sessionizer.core.wire.rows import INITIAL
from sessionizer.core.wire.schema import group_labels, group_numbers
from sessionizer.counts import count_text
from sessionizer.errors import HalfWrittenBatch, UnfaithfulState
from sessionizer.home.data_files import make_listed_folder, remove_tree
from sessionizer.home.json_record import JsonObject
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.canary.canary_record import begin_canary
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE
from sessionizer.lineage.kept_spec import MIGRATIONS_FILE, AppliedMigrations, LineageSpec, read_applied
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.guard import Guarded
from sessionizer.spark.query.assembly import group_of, session_query
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.sinks.examine import Examined, half_written_batch
from sessionizer.spark.sinks.write import few_blobs_at_a_time
from sessionizer.spark.state.open_events import (
    FirstLog,
    KeptState,
    describe_state,
    digest_blobs,
    drop_erased_events,
    drop_erased_from_logs,
    first_log_of,
    group_blobs,
    keep_logs,
    log_blobs,
    log_rows,
    open_event_schema,
    open_events_of,
    read_at_head,
    read_state_timeouts,
    reading_state,
    whole_logs,
)
from sessionizer.state.lineages.committed_batch import (
    Blobs,
    CommittedBatch,
    LineageStep,
    PackedGroup,
    StateTransfer,
    check_packing,
    disagreement,
    records_beside,
    unread_punctuations,
    write_records,
)
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, lineage_before, remove_lineage
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    from sessionizer.spark.state.lineages.migrated_events import MigratedEvents


_GROUP: Final = "new_key_group"
_SHARES: Final = f"{_GROUP} int, blob binary, events bigint, without_key bigint, without_timeout bigint"
_PACKED: Final = f"{INITIAL}, events bigint, whole boolean"


@dataclass(frozen=True, slots=True)
class DividedEvents:
    """Open events divided among key groups: ``shares``, a blob in each row, and the events of each group."""

    shares: DataFrame
    key_groups: int
    by_group: Mapping[int, int]


State: TypeAlias = DataFrame | KeptState | FirstLog | DividedEvents
"""Canonical open events, those divided among as many key groups as needed, the logs of as many, or a kept state."""


def divide(
    open_events: DataFrame, key_groups: int, folder: DataPath, admissions: Sequence[str] | None = None
) -> DataFrame:
    """Divide canonical events, evaluated once, into ``folder``. ``admissions``: as JSON, if they are numbers."""

    def divided(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in shares(batches, _GROUP, admissions):
            counts = {name: getattr(share, name) for name in ("events", "without_key", "without_timeout")}
            row = {_GROUP: pa.array([share.group], pa.int32()), "blob": pa.array([share.blob], pa.binary())}
            yield pa.RecordBatch.from_pydict({**row, **{name: pa.array([n], pa.int64()) for name, n in counts.items()}})

    grouped = open_events.withColumn(_GROUP, group_of(F.col(schema.KEY), key_groups))
    grouped.mapInArrow(divided, _SHARES).write.option("compression", "none").parquet(uri_of(folder))
    return open_events.sparkSession.read.schema(_SHARES).parquet(uri_of(folder))


def count_shares(shares: DataFrame) -> tuple[dict[int, int], dict[str, int]]:
    """Count the open events in shares: by key group, and those without a key or a timeout. No blob is read."""
    sums = (F.sum(name).alias(name) for name in ("events", "without_key", "without_timeout"))
    found = shares.groupBy(_GROUP).agg(*sums).collect()
    without = {schema.KEY: "without_key", schema.TIMEOUT: "without_timeout"}
    unfit = {name: sum(row[column] for row in found) for name, column in without.items()}
    return {row[_GROUP]: row.events for row in found}, unfit


def pack_events(spark: SparkSession, stream: str, divided: DividedEvents, folder: DataPath) -> FirstLog:
    """Pack the ``divided`` open events into ``folder``. Raises UnfaithfulState if an event got lost."""
    pack(divided, folder)
    rows, numbers = spark.read.schema(_PACKED).parquet(uri_of(folder)), group_numbers(divided.key_groups)
    found = rows.select("key_group", "number", "events", "whole", F.sha2("blob", 256).alias("digest")).collect()
    blobs = group_blobs(((row.key_group, row.number, row.digest) for row in found), divided.key_groups)
    events, whole = dict.fromkeys(blobs, 0), dict.fromkeys(blobs, True)
    for row in found:
        events[numbers[row.key_group]] += row.events
        whole[numbers[row.key_group]] &= row.whole
    packed = {group: PackedGroup(events[group], whole[group], blobs[group]) for group in blobs}
    lost = check_packing(divided.by_group, packed)
    if lost is not None:
        raise UnfaithfulState(stream, lost)
    return FirstLog(spark.read.schema(INITIAL).parquet(uri_of(folder)), blobs)


def pack(divided: DividedEvents, folder: DataPath) -> None:
    """Write the packed groups into ``folder``. A group is opened whole in one Python worker, as in a merge."""
    key_groups = divided.key_groups

    def pack_group(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        log = pack_shares(rows.column("blob").to_pylist())
        found = pa.Table.from_batches([*log_rows(int(group_labels(key_groups)[key[0].as_py()]), log.blobs)])
        found = found.append_column("events", pa.array(log.events, pa.int64()))
        return found.append_column("whole", pa.repeat(log.whole, len(log.blobs)))

    packed_groups = divided.shares.select(_GROUP, "blob").groupBy(_GROUP).applyInArrow(pack_group, _PACKED)
    packed_groups.write.option("compression", "none").parquet(uri_of(folder))


_SEED_BATCH: Final = 0
_BATCHES_WITHOUT_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(slots=True)
class NewLineage:
    """A new lineage, which begins as ``transfer`` says. ``spec``: what it runs by, ``examined`` against its source.

    ``partitions``: of its state. ``permit`` returns only while the lease is known to be ours. ``after`` is called with
    each part that is over. ``erased``: keys whose open events are left out. ``lineage``: its id, if it has one. Each
    part raises LeaseLost.
    """

    spark: SparkSession
    home: StreamHome
    spec: StreamSpec
    examined: Examined
    partitions: int
    transfer: StateTransfer
    permit: Callable[[], None]
    after: Callable[[LineageStep], None]
    erased: ErasedKeys = NOBODY_ERASED
    lineage: str = ""
    _blobs: Mapping[int, Blobs] = field(default_factory=dict, init=False)
    _is_compared: bool = field(default=False, init=False)
    _may_be_active: bool = field(default=False, init=False)

    def start(self, given: State) -> None:
        """Make the lineage and its batch 0, with the ``given`` state."""
        self.transfer = self.transfer.forget_clients(partial(self.erased.names, schema.CLIENT))
        self.lineage = make_lineage(self.home, self.transfer.spec, self.lineage)
        ORIGIN_FILE.of(self.home, self.lineage).write(self.transfer.origin)
        make_listed_folder(self.home.lineage(self.lineage).no_events)
        self._finish_part(LineageStep.MADE)
        # the checkpoint pins the number of partitions from its first batch on, and there is to be one batch only
        settings = {PARTITIONS: str(self.partitions), _BATCHES_WITHOUT_DATA: "false"}
        with reading_state(self.spark), temporary_settings(self.spark, settings):
            first = self._first_log(given)
            self._seed(first.rows)
        self._blobs = first.blobs
        self._finish_part(LineageStep.SEEDED)

    def compare(self) -> None:
        """Read the state back, once. Raises UnfaithfulState if it is not the given one."""
        if self._is_compared:
            return
        if (found := self._difference()) is not None:
            raise UnfaithfulState(self.home.name, found)
        remove_tree(self.home.lineage(self.lineage).first_log)
        self._is_compared = True
        self._finish_part(LineageStep.COMPARED)

    def note_tables(self, versions: Mapping[str, int]) -> None:
        """Note the newest versions of the tables before the command changes their rows."""
        self.transfer = replace(self.transfer, origin=replace(self.transfer.origin, tables=versions))
        ORIGIN_FILE.of(self.home, self.lineage).write(self.transfer.origin)

    def set_position(self) -> None:
        """Set the position of the source, then write the files that Spark does not write."""
        write_start_position(self.home.checkpoint(self.lineage), self.transfer.offset, self.transfer.seen)
        self._finish_part(LineageStep.POSITIONED)
        write_records(self.home, self.lineage, self.transfer)
        self._finish_part(LineageStep.RECORDED)

    def begin_canary(self, terms: CanaryTerms) -> None:
        """Begin the canary of the lineage. Rows that the user excluded are no sign that it is worse."""
        if EXCLUDED_RANGES_FILE.name in self.transfer.records:
            terms = replace(terms, judges_refused=False)
        before = lineage_before(self.home, self.lineage)
        begin_canary(self.home, self.lineage, self.transfer.origin.verb, before, terms)

    def activate(self) -> str:
        """Make it the active lineage, and return it. From here on ``remove`` leaves it alone."""
        self._may_be_active = True
        before = lineage_before(self.home, self.lineage)
        activate_lineage(self.home, self.lineage, self.transfer.origin.parent, before)
        self.after(LineageStep.ACTIVATED)
        return self.lineage

    def remove(self) -> None:
        """Remove all of it, unless it was made active: another process may have completed the command by now."""
        if self.lineage and not self._may_be_active:
            remove_lineage(self.home, self.lineage)

    def _finish_part(self, step: LineageStep) -> None:
        """Report the part. Raises LeaseLost, because another run has perhaps removed this lineage."""
        self.after(step)
        self.permit()

    def _first_log(self, given: State) -> FirstLog:
        """Return the log as it is if its key groups and revision stay, else packed anew beside the checkpoint."""
        if self.erased:
            given = self._drop_erased(given)
        if isinstance(given, FirstLog):
            return given
        if isinstance(given, KeptState):
            if given.key_groups == self.spec.key_groups and given.revision == rows.REVISION:
                return keep_logs(self.spark, given)
            given = read_at_head(self.spark, given)
        folder = self.home.lineage(self.lineage).first_log
        if not isinstance(given, DividedEvents):
            groups, key = self.spec.key_groups, F.col(schema.KEY)
            divided = divide(given, groups, folder / "shares")
            counted = given.groupBy(group_of(key, groups).alias("of")).agg(F.count("*").alias("events")).collect()
            given = DividedEvents(divided, groups, {row.of: row.events for row in counted})
        return pack_events(self.spark, self.home.name, given, folder / "packed")

    def _drop_erased(self, given: State) -> State:
        """Leave out the events of erased keys. Those of a migration were left out before."""
        if isinstance(given, DividedEvents):
            return given
        if isinstance(given, KeptState):
            if given.revision != rows.REVISION:
                given = read_at_head(self.spark, given)
            else:
                return self._drop_from_logs(log_blobs(self.spark, given), given.key_groups)
        if isinstance(given, FirstLog):
            return self._drop_from_logs(whole_logs(given.rows, self.partitions), self.spec.key_groups)
        return drop_erased_events(given, self.erased)

    def _drop_from_logs(self, logs: DataFrame, key_groups: int) -> DataFrame | FirstLog:
        kept = drop_erased_from_logs(logs, self.erased)
        if key_groups != self.spec.key_groups:
            shape = open_event_schema(self.transfer.kept)
            return open_events_of(whole_logs(kept, self.partitions), key_groups, shape)
        # written once: the state is filled from the blobs that it is compared with
        folder = uri_of(self.home.lineage(self.lineage).first_log / "without_erased")
        kept.write.option("compression", "none").parquet(folder)
        return first_log_of(self.spark.read.schema(INITIAL).parquet(folder), key_groups)

    def _seed(self, first_log: DataFrame) -> None:
        """Run batch 0: the stream's own query over no events, with the state and one punctuation."""
        folder, home = self.home.punctuations(self.lineage), self.home.lineage(self.lineage)
        punctuation.seed(folder, self.transfer.watermark_ms, self.transfer.timeouts)
        learned, guarded = OpenSessions(home.open_sessions), self.examined.guarded

        def write(emitted: DataFrame, batch_id: int) -> None:
            self.permit()
            found = emitted.collect()
            others = {row.kind for row in found} - {rows.OPEN}
            if batch_id != _SEED_BATCH or others:
                raise ValueError(f"batch {batch_id} of a lineage that only begins emitted {sorted(others)}")
            learned.learn(batch_id, [(row.key_group, OpenInGroup.from_json(bytes(row.blob))) for row in found])

        nothing = self.spark.readStream.schema(guarded.rows.schema).parquet(uri_of(home.no_events))
        query = session_query(self.spark, self.spec, Guarded(nothing, guarded.payload), folder, first_log)
        with few_blobs_at_a_time(self.spark):
            query.start(write, self.home.checkpoint(self.lineage), every_ms=None).awaitTermination()

    def _difference(self) -> str | None:
        """Say how the state differs from the given one, None if it does not."""
        checkpoint, given = self.home.checkpoint(self.lineage), self.transfer
        state = KeptState(checkpoint, _SEED_BATCH, self.spec.key_groups, open_event_schema(given.kept))
        with reading_state(self.spark):
            found = disagreement(self._blobs, digest_blobs(self.spark, state))
            timeouts = read_state_timeouts(self.spark, state)
        if found is not None:
            return found
        if dict(timeouts) != dict(given.timeouts):
            kept = count_text(len(timeouts), "client")
            return f"it keeps the timeouts of {kept}, and was given those of {len(given.timeouts)}"
        watermark = next_watermark(checkpoint, _SEED_BATCH)
        if self.spec.rules.clock.has_watermark and watermark != given.watermark_ms:
            return f"its watermark is {watermark} ms, and {given.watermark_ms} ms was handed over"
        return None


def transfer_state(  # noqa: PLR0913  what a lineage begins with
    spark: SparkSession,
    home: StreamHome,
    committed: CommittedBatch,
    spec: LineageSpec,
    origin: Origin,
    *,
    same_source: bool = True,
    records: Mapping[str, JsonObject] = MappingProxyType({}),
    migrated: MigratedEvents | None = None,
) -> tuple[KeptState | DividedEvents, StateTransfer]:
    """Return the state after the committed batch of ``committed``, for a new lineage by ``spec``.

    ``same_source``: whether the source stays, so that its excluded ranges stay excluded. ``records``: other
    files of the lineage, by their names. ``migrated``: the open events in place of those of the state, which are
    migrated now. Raises HalfWrittenBatch, MigrationRefused.
    """
    written = home.streamed_locations(committed.spec["sink"]["path"]).values()
    begun = half_written_batch(spark, home, committed.lineage, written)
    if begun is not None:  # the new lineage would write its rows once more
        raise HalfWrittenBatch(home.name, begun)
    state = describe_state(committed)
    if migrated is None:
        kept, applied = committed.kept, read_applied(home, committed.lineage)
        with reading_state(spark):
            timeouts = read_state_timeouts(spark, state)
    else:
        kept, applied, timeouts = migrated.kept, migrated.applied(), migrated.timeouts()
    transfer = StateTransfer(
        origin=origin,
        spec=spec,
        kept=kept,
        watermark_ms=committed.watermark_ms,
        offset=committed.position.offset,
        seen=committed.seen_files,
        timeouts=timeouts,
        records={
            **records_beside(home, committed.lineage, same_source=same_source),
            **records,
            **MIGRATIONS_FILE.content(AppliedMigrations(applied)),
        },
        punctuations=unread_punctuations(home, committed),
    )
    if migrated is None:
        return state, transfer
    migrated.decide()
    return migrated.migrate(int(spec.document["key_groups"])), transfer
