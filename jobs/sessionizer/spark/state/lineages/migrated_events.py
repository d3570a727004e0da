"""Open events of a stopped stream for a new lineage: decided by the rules so far, then migrated (docs/migrations.md).

Sessions that are over, and duplicates that wait undecided, are not migrated. They are kept in a folder of the new
lineage until it is active. Then they are written into the tables that the old spec names, as batch 0 of the new
lineage. A table takes that batch once, so a killed command does it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from sessionizer.checkpoint.log_entries import PARTITIONS, read_planned_batch
from sessionizer.control.records.erasure_record import read_erased
from sessionizer.core.definition.rules import NEVER_MS, Clock
from sessionizer.core.key_group.append_or_merge import NO_PLAN, GroupChanges, GroupRules
from sessionizer.core.key_group.table_rows import decide_rows
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.canonical import canonical_schema, code_admissions, coded_schema
from sessionizer.core.wire.codec import decode_log
from sessionizer.core.wire.schema import group_numbers
from sessionizer.errors import MigrationRefused, UnfaithfulState
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names, remove_tree
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.batch_log import BatchLog, table_key
from sessionizer.lineage.kept_spec import SPEC_FILE, KeptTypes, read_applied
from sessionizer.migrations.declared import (
    AppliedMigration,
    Assignment,
    CompiledMigration,
    compile_migrations,
    list_columns_after,
    record_applied,
)
from sessionizer.migrations.draft import SAMPLES, MergedKey, MigratedSample, Preview
from sessionizer.migrations.graph import bring_to
from sessionizer.spark.ingest.expressions import (
    check_type,
    find_beyond_years,
    normalize_type,
    require_keepable,
    require_type,
)
from sessionizer.spark.ingest.guard import INTEGERS, arrow_fields, types_of
from sessionizer.spark.internals.trying import try_expression
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.query.processor import Output
from sessionizer.spark.sinks.measures import GuardedAggregates
from sessionizer.spark.sinks.write import BatchCounts, Sinks
from sessionizer.spark.state.lineages.new_lineage import DividedEvents, count_shares, divide
from sessionizer.spark.state.open_events import (
    KeptState,
    admissions_in,
    count_by_kind,
    describe_state,
    drop_erased_from_logs,
    log_blobs,
    map_logs,
    read_state_timeouts,
    reading_state,
    select_open_events,
    tabulate_output,
    whole_logs,
)
from sessionizer.spark.state.savepoints.saved_state import read_saved_logs, saved_timeouts
from sessionizer.state.lineages.committed_batch import CommittedBatch
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

DECIDED: Final = "decided"
"""Folder with rows of ``rows.EMITTED``: what the key groups came to before the migration."""
_SEED_BATCH: Final = 0
_PREFIX: Final = f"{schema.PAYLOAD}_"
_CLOCK, _TIE = "clock_ms", "tie_ms"
_EVENT: Final = frozenset({
    schema.KEY, schema.CLIENT, _CLOCK, _TIE, schema.EVENT_ID, schema.CLOSES, schema.TIMEOUT,
})  # fmt: skip
_ROW, _BEFORE, _NUMBER = "_row", "_before", "_number"


def _names_in(columns: Sequence[str]) -> list[str]:
    """Return the names that a spec has for the payload ``columns`` of canonical rows."""
    return [name.removeprefix(_PREFIX) for name in columns if name.startswith(_PREFIX)]


def _show_events(events: DataFrame) -> list[Column]:
    """Return the columns of a canonical open event as a migration sees them."""
    payload = _names_in(events.columns)
    at = F.nullif(F.col(_TIE), F.lit(0)) if _TIE in events.columns else F.col(_CLOCK)
    names = (schema.KEY, schema.CLIENT, "event_time", schema.EVENT_ID, schema.CLOSES, schema.TIMEOUT)
    own = {name: F.timestamp_millis(at) if name == "event_time" else F.col(name) for name in names}
    # a payload column of the same name is meant, because only that one is the user's
    ours = [column.alias(name) for name, column in own.items() if name not in payload]
    return [*ours, *(F.col(f"`{_PREFIX}{name}`").alias(name) for name in payload)]


def _migrate(events: DataFrame, compiled: CompiledMigration) -> DataFrame:
    """Return canonical open events after a migration. Other columns stay, and nothing is evaluated.

    A key is null where its expression gave none, and a timeout is below 1 where its was none. Raises InvalidSpec for
    SQL that does not fit.
    """
    view = events.select(F.struct(*(F.col(f"`{name}`") for name in events.columns)).alias(_ROW), *_show_events(events))
    found = {
        schema.KEY: _text(view, compiled.key),
        schema.CLIENT: _text(view, compiled.client),
        schema.TIMEOUT: _timeout(view, compiled.timeout_ms),
        **{f"{_PREFIX}{each.column}": _payload(view, each) for each in compiled.payload},
    }
    if (where := compiled.where.sql) is not None:
        require_type(view, compiled.where.field, where, ("boolean",), "For example: client <> 'test'")
        view = view.where(F.coalesce(try_expression(view, where), F.lit(False)))  # noqa: FBT003  lit has no keyword
    own = [name for name in events.columns if not name.startswith(_PREFIX)]
    # the payload columns stay between those of the event and the two that canonical rows end with
    names = [name for name in own if name in _EVENT], list(found)[3:], [name for name in own if name not in _EVENT]
    columns = {name: found.get(name) for some in names for name in some}
    return view.select(*((_old_column(name) if new is None else new).alias(name) for name, new in columns.items()))


def _old_column(name: str) -> Column:
    return F.col(f"{_ROW}.`{name}`")


def _text(view: DataFrame, assignment: Assignment) -> Column | None:
    if assignment.sql is None:
        return None
    check_type(view, assignment.field, assignment.sql)
    return try_expression(view, assignment.sql).cast("string")


def _timeout(view: DataFrame, assignment: Assignment) -> Column | None:
    """Return the timeout, 0 for none, at most ``NEVER_MS``."""
    if assignment.sql is None:
        return None
    require_type(view, assignment.field, assignment.sql, INTEGERS, "It is in milliseconds, for example 1800 * 1000L")
    found = try_expression(view, assignment.sql).cast("bigint")
    return F.least(F.coalesce(found, F.lit(0).cast("bigint")), F.lit(NEVER_MS))


def _payload(view: DataFrame, assignment: Assignment) -> Column | None:
    if assignment.sql is None:
        return None
    kind = normalize_type(require_keepable(view, assignment.field, assignment.sql))
    found = try_expression(view, assignment.sql).cast(kind)
    beyond = find_beyond_years(found, kind)
    # a moment that Arrow or Delta cannot keep would end the stream at the next merge
    return found if beyond is None else F.when(~F.coalesce(beyond, F.lit(False)), found)  # noqa: FBT003  lit has no keyword


def payload_so_far(spec: StreamSpec, kept: KeptTypes) -> schema.Payload:
    """Return the payload columns of the ``spec`` so far, in the newest of the types that each had."""
    types = {name: kept.payload[name][-1] for name in spec.mapping.payload if name in kept.payload}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return arrow_fields(StructType.fromJson({"type": "struct", "fields": fields}))


def write_finished_rows(
    spark: SparkSession,
    home: StreamHome,
    lineage: str,
    before: tuple[StreamSpec, KeptTypes],
    permit: Callable[[], None],
) -> None:
    """Write the finished rows of the migration of ``lineage`` as its batch 0, then remove them from its folder.

    ``before``: the spec and the types of the lineage that the rows come from. Without rows nothing is left to do.
    Raises LeaseLost, and the errors of the tables.
    """
    folder = home.lineage(lineage).migration
    if not list_names(folder):
        return
    decided = spark.read.schema(rows.EMITTED).parquet(uri_of(folder / DECIDED))
    write_first_batch(home, lineage, before[0], payload_so_far(*before), decided, permit)
    remove_tree(folder)


def write_first_batch(
    home: StreamHome,
    lineage: str,
    spec: StreamSpec,
    payload: schema.Payload,
    emitted: DataFrame,
    permit: Callable[[], None],
) -> BatchCounts:
    """Write the finished rows of ``emitted`` as batch 0, which a table takes once. Raises LeaseLost."""
    measures = GuardedAggregates.of(emitted.sparkSession, spec.measures)
    places, keep = home.streamed_locations(spec.sink.path), spec.sink.keep_events
    sinks = Sinks(lineage, places, payload, measures, keep, permit, stream=spec.name, begun=_SEED_BATCH)
    counts = sinks.write(emitted.where(F.col("kind").isin(rows.SESSIONS, rows.QUARANTINE)), _SEED_BATCH)
    written = [table_key(spec.sink.path, table) for table in counts.tables]
    BatchLog(home.lineage(lineage).batches).note_rows(_SEED_BATCH, written)
    return counts


@dataclass(frozen=True)
class MigratedEvents:
    """The open events of the stream of ``home`` after ``committed``, and the ``pending`` migrations that they get.

    ``folder``: where the results are. It survives a kill, and ``decide`` makes it anew. ``keeps_none``:
    all open events are left behind. ``saved``: a savepoint of the same batch, which is read in place of the
    checkpoint, because Spark replays a checkpoint each time. ``state``: its state, if it is native. ``final_by_ms``:
    the moment (epoch ms) up to which sessions are over, if the checkpoint cannot tell.
    """

    spark: SparkSession
    home: StreamHome
    committed: CommittedBatch
    pending: tuple[Migration, ...]
    folder: DataPath
    keeps_none: bool = False
    saved: tuple[SavepointHome, Manifest] | None = None
    state: KeptState | None = None
    final_by_ms: int | None = None

    @cached_property
    def kept(self) -> KeptTypes:
        """The types that the migrated events have. Raises InvalidSpec, MigrationRefused. Reads no event."""
        if self.keeps_none:
            return KeptTypes(self.committed.kept.time_mode)
        shape = from_arrow_schema(self._shape, prefer_timestamp_ntz=False)
        after = reduce(_migrate, self.compiled, self.spark.createDataFrame([], shape))
        names = _names_in(after.columns)
        payload = StructType([StructField(each, after.schema[f"{_PREFIX}{each}"].dataType) for each in names])
        return KeptTypes(self.committed.kept.time_mode).add_payload(types_of(payload))

    def decide(self) -> None:
        """Decide the log of each key group by the rules so far, and keep the results. Reads the state once."""
        remove_tree(self.folder)
        with reading_state(self.spark):
            decided = map_logs(self._logs(), self._decider(), rows.EMITTED)
            decided.write.option("compression", "none").parquet(uri_of(self.folder / DECIDED))  # each blob is already

    def migrate(self, key_groups: int) -> DividedEvents:
        """Migrate the events, after ``decide``, for ``key_groups``. Raises MigrationRefused, UnfaithfulState."""
        after = reduce(_migrate, self.compiled, self.decided_events())
        if self.keeps_none:
            after = self.spark.createDataFrame([], after.schema)
        shares = divide(after, key_groups, self.folder / "migrated", admissions_in(self._decided()))
        by_group, unfit = count_shares(shares)
        self.require_whole(unfit)
        events, decided = sum(by_group.values()), self.counts().get(rows.OPEN_EVENTS, 0)
        may_leave = self.keeps_none or any(each.where for each in self.pending)
        if events > decided or (events < decided and not may_leave):
            raise UnfaithfulState(self.home.name, f"of {decided} open events {events} were migrated")
        return DividedEvents(shares, key_groups, by_group)

    def decided_events(self) -> DataFrame:
        """Read the open events before their migration, by ``canonical_schema``, but for their admissions.

        Those are numbers, and name the columns that an event has afterwards, because no SQL has to change them.
        """
        return select_open_events(self._decided(), self._shape)

    def timeouts(self) -> Mapping[str, int]:
        """Read the clients' timeouts (ms) that were changed so far."""
        if self.saved is not None and self.state is None:
            return saved_timeouts(self.spark, *self.saved)
        with reading_state(self.spark):
            return read_state_timeouts(self.spark, self._state)

    def counts(self) -> dict[str, int]:
        """Return the number of decided rows of each kind."""
        return count_by_kind(self._decided())

    def require_whole(self, unfit: Mapping[str, int]) -> None:
        """Raise MigrationRefused if events are ``unfit``: by the name of what they lack."""
        for name, events in unfit.items():
            if events:
                by = next((each.id for each in self.pending if getattr(each, name)), self.pending[-1].id)
                cause = f"open events that would have no {name}: {events}"
                to_do = f"Write coalesce(…, {name}), or leave these events out by where"
                raise MigrationRefused(self.home.name, by, cause, to_do)

    def applied(self) -> tuple[AppliedMigration, ...]:
        """Return the migrations of a lineage that begins with the migrated events."""
        before = read_applied(self.home, self.committed.lineage) if self.saved is None else self.saved[1].migrations
        return (*before, *record_applied(self.pending, epoch_ms()))

    @cached_property
    def compiled(self) -> tuple[CompiledMigration, ...]:
        """The pending migrations as assignments. Raises MigrationRefused."""
        return compile_migrations(self.home.name, self.pending, _names_in(self._shape.names))

    @cached_property
    def _shape(self) -> pa.Schema:
        """Columns of the decided open events at the revision of this release."""
        empty = canonical_schema(self._state.events).empty_table()
        return coded_schema(bring_to(empty, self._state.revision).schema)

    @cached_property
    def _state(self) -> KeptState:
        return self.state or describe_state(self.committed)

    def _logs(self) -> DataFrame:
        """Return the logs of all groups, in the form of ``log_blobs``, without the events of erased keys."""
        partitions, erased = int(self.committed.settings[PARTITIONS]), read_erased(self.home)
        if self.saved is None or self.state is not None:
            logs = log_blobs(self.spark, self._state)
        else:
            logs = whole_logs(read_saved_logs(self.spark, self.saved[0], self._state.key_groups), partitions)
        return whole_logs(drop_erased_from_logs(logs, erased), partitions) if erased else logs

    def _decided(self) -> DataFrame:
        return self.spark.read.schema(rows.EMITTED).parquet(uri_of(self.folder / DECIDED))

    def _decider(self) -> Callable[[int, list[bytes]], Iterator[pa.RecordBatch]]:
        committed, state, final_by_ms = self.committed, self._state, self.final_by_ms
        if not Clock(committed.kept.time_mode).has_watermark:
            final_by_ms = committed.batch_at
        elif final_by_ms is None:
            final_by_ms = read_planned_batch(committed.checkpoint, committed.batch_id).watermark_ms
        spec = parse_recorded_spec(committed.spec, SPEC_FILE.of(self.home, committed.lineage).path)
        shared = GroupRules(rules_of(spec), payload_so_far(spec, committed.kept), state.key_groups)
        numbers, events = group_numbers(state.key_groups), state.events
        revision, migrations = state.revision, self.compiled

        def list_later(columns: Sequence[str]) -> list[str]:
            """Return the payload columns that rows with ``columns`` have after the migrations."""
            return [f"{_PREFIX}{name}" for name in sorted(list_columns_after(_names_in(columns), migrations))]

        def decide_group(label: int, blobs: list[bytes]) -> Iterator[pa.RecordBatch]:
            found = decide_rows(decode_log(blobs), numbers[label], shared, final_by_ms, events)
            output = Output(numbers[label])
            output.step(GroupChanges(NO_PLAN, merged=found.merged))
            migrating, admissions = code_admissions(bring_to(found.rows, revision), list_later)
            output.table(rows.OPEN_EVENTS, migrating)
            output.row(rows.ADMISSIONS, len(admissions), json.dumps(admissions).encode())
            yield from tabulate_output(output).to_batches()

        return decide_group


def preview_migrations(events: MigratedEvents) -> Preview:
    """Return what pending migrations do, by files in their folder. Raises InvalidSpec, MigrationRefused."""
    events.decide()
    given = events.decided_events()
    given = given.withColumn(_BEFORE, _as_json(given)).withColumn(_NUMBER, F.monotonically_increasing_id())
    before = _evaluate(events, "before", given)
    after = _evaluate(events, "preview", reduce(_migrate, events.compiled, before))
    wrong = {schema.KEY: F.col(schema.KEY).isNull(), schema.TIMEOUT: F.col(schema.TIMEOUT) < 1}
    unfit = after.agg(*(F.count_if(each).alias(name) for name, each in wrong.items())).first()
    events.require_whole(unfit.asDict() if unfit else {})
    old_key = F.get_json_object(_BEFORE, f"$.{schema.KEY}")
    merged = after.groupBy(schema.KEY).agg(F.collect_set(old_key).alias("keys")).where(F.size("keys") > 1)
    split = after.groupBy(old_key.alias("old")).agg(F.count_distinct(schema.KEY).alias("keys")).where("keys > 1")
    ids = after.groupBy(schema.KEY, schema.EVENT_ID).count().where("count > 1")
    kept, counts, total = after.count(), events.counts(), before.count()
    collisions = merged.orderBy(F.size("keys").desc(), schema.KEY).limit(SAMPLES).collect()
    return Preview(
        stream=events.home.name,
        lineage=events.committed.lineage,
        batch_id=events.committed.batch_id,
        ids=tuple(each.id for each in events.pending),
        finished=counts.get(rows.SESSIONS, 0),
        events=total,
        leave=total - kept,
        keys_before=before.select(schema.KEY).distinct().count(),
        keys_after=after.select(schema.KEY).distinct().count(),
        merged_keys=merged.count(),
        split_keys=split.count(),
        duplicates=int(ids.agg(F.sum(F.col("count") - 1)).collect()[0][0] or 0),
        collisions=tuple(
            MergedKey(row.key, len(row["keys"]), tuple(sorted(row["keys"])[:SAMPLES])) for row in collisions
        ),
        samples=_samples(before, after),
    )


def _evaluate(events: MigratedEvents, name: str, frame: DataFrame) -> DataFrame:
    """Evaluate ``frame`` once."""
    place = uri_of(events.folder / name)
    frame.write.parquet(place)
    return frame.sparkSession.read.schema(frame.schema).parquet(place)


def _as_json(frame: DataFrame) -> Column:
    return F.to_json(F.struct(*_show_events(frame)), {"ignoreNullFields": "false"})


def _samples(before: DataFrame, after: DataFrame) -> tuple[MigratedSample, ...]:
    """Return the first events by key and time, each before and after."""
    first = before.orderBy(schema.KEY, _CLOCK, schema.EVENT_ID).limit(SAMPLES).select(_NUMBER, _BEFORE)
    now = after.select(_NUMBER, _as_json(after).alias("now"))
    found = first.join(now, _NUMBER, "left").collect()
    pairs = [(json.loads(row[_BEFORE]), None if row["now"] is None else json.loads(row["now"])) for row in found]
    pairs.sort(key=lambda pair: (pair[0]["key"], str(pair[0]["event_time"])))
    return tuple(MigratedSample(*pair) for pair in pairs)
