"""The stateful operator: one key group's log of open events, kept in RocksDB by transformWithState.

A thin adapter: it moves blobs between Spark and ``core.key_group.append_or_merge``, which decides everything.
Per group it keeps four variables, whose Spark schemas never change (the blobs carry their own):

- ``log`` (list of ``blob binary``): the merged rest of when it was last written anew (apart by what its events were
  admitted by), then a blob per batch, and after each merge the tombstones (``sessionizer.core.wire.codec``);
- ``plan`` (``at long, appended int``): the one registered timer (epoch ms, null for none) and how many blobs the log
  got since the last merge;
- ``timeouts`` (``changes binary``): the clients' timeouts changed by punctuations
  (``sessionizer.core.key_group.cutting``);
- ``timeouts_fingerprint`` (``fingerprint binary``): of those. They may be a megabyte, which a group asks the state
  for only if no group before it in the same Python process had the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.key_group.append_or_merge import (
    NO_PLAN,
    Arrivals,
    BatchBounds,
    GroupChanges,
    GroupRules,
    MergeSchedule,
    take_batch,
    take_initial,
    take_timer,
)
from sessionizer.core.key_group.contents import take_snapshot
from sessionizer.core.key_group.cutting import keep_timeouts, read_kept_timeouts
from sessionizer.core.key_group.group_load import OpenInGroup
from sessionizer.core.wire import rows as kinds
from sessionizer.core.wire.codec import decode, encode, log_tables, pieces
from sessionizer.core.wire.event_size import json_objects
from sessionizer.core.wire.schema import group_numbers
from sessionizer.launch.driver_environment import plain
from sessionizer.spark.frozen_imports import freeze_imports
from sessionizer.spark.internals.init_worker import hush_init_worker
from sessionizer.spark.internals.state_socket import answer_within


@dataclass(slots=True)
class GroupShare:
    """A group's packed rows of a batch, sorted by kind."""

    events: list[pa.Table] = field(default_factory=list)
    quarantined: list[bytes] = field(default_factory=list)
    floor_ms: int = 0
    seeds: bool = False
    """Whether this is the batch that begins a lineage with a state."""
    shows_open: bool = False
    """Whether the open sessions are to be emitted as they are after the batch."""
    timeouts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The last change of each client: its time, and the timeout, both ms."""

    @property
    def changed_timeouts(self) -> dict[str, int]:
        """Timeout (ms) of each client that has another one from this batch on."""
        return {client: timeout_ms for client, (_, timeout_ms) in self.timeouts.items()}

    def take(self, kind: str, blob: bytes) -> None:
        """Add one packed row by its kind."""
        if kind == kinds.EVENTS:
            self.events.append(decode(blob))
        elif kind == kinds.QUARANTINE:
            self.quarantined.append(blob)
        else:
            punctuation = json.loads(blob)
            self.seeds |= bool(punctuation.get("seed"))
            self.shows_open |= bool(punctuation.get("shows_open"))
            self.floor_ms = max(self.floor_ms, punctuation.get("floor_ms") or 0)
            for change in punctuation.get("timeouts") or []:
                # of several in one batch the last said holds, in whatever order they come
                said = (punctuation.get("said_at_ms") or 0, min(change["timeout_ms"], NEVER_MS))
                self.timeouts[change["client"]] = max(said, self.timeouts.get(change["client"], said))


class Output:
    """Output of one call, as rows of ``kinds.EMITTED``."""

    def __init__(self, key_group: int) -> None:
        self._key_group = key_group
        self.rows: list[Row] = []

    def row(self, kind: str, count: int, blob: bytes | None = None) -> None:
        """Emit a blob of ``count`` rows as it is, or a bare number."""
        self.rows.append(Row(kind=kind, key_group=self._key_group, row_count=count, blob=blob))

    def table(self, kind: str, table: pa.Table | pa.RecordBatch | None) -> None:
        """Emit a table, unless it is empty. A large one is emitted in several blobs."""
        if table is None or not table.num_rows:
            return
        whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
        for piece in pieces(whole):
            self.row(kind, piece.num_rows, encode(piece))

    def step(self, step: GroupChanges, began: float | None = None) -> None:
        """Emit the results of a step. ``began``: the monotonic clock (s) at its begin, if its time is reported."""
        self.table(kinds.LATE, step.late)
        if (merged := step.merged) is not None:
            self.table(kinds.SESSIONS, merged.sessions)
            if merged.repeated:
                self.row(kinds.REPEATED, merged.repeated)
            if merged.conflicting is not None:
                raw = json_objects(merged.conflicting)
                reasons = [QuarantineReason.CONFLICTING_DUPLICATE.value] * len(raw)
                columns = [pa.array(reasons), pa.array(raw, pa.string()), pa.nulls(len(raw), pa.string())]
                self.table(kinds.QUARANTINE, pa.table(columns, names=kinds.QUARANTINE_COLUMNS))
        if step.open_in_group is not None:
            took_ms = 0 if began is None else round((time.monotonic() - began) * 1000)
            report = step.open_in_group.taking(took_ms)
            self.row(kinds.OPEN, report.sessions, report.to_json())


_LOG: Final = StructType([StructField("blob", BinaryType())])
_PLAN: Final = StructType([StructField("at", LongType()), StructField("appended", IntegerType())])
_TIMEOUTS: Final = StructType([StructField("changes", BinaryType())])
_FINGERPRINT: Final = StructType([StructField("fingerprint", BinaryType())])
ANSWER_WITHIN_S: Final = 60.0
"""Seconds for a request that takes milliseconds, because the state's server may have ended without a notice."""

hush_init_worker()  # at the import, because that worker prints before it calls a processor


class SessionProcessor(StatefulProcessor):
    """Operator for the sessions of all keys of a group. The grouping key is the group's label."""

    def __init__(self, shared: GroupRules) -> None:
        self._shared = shared
        # made in the driver: a cluster's workers do not have its environment
        self._patient = plain()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state variables."""
        self._handle = handle
        self._number = group_numbers(self._shared.key_groups)
        if not self._patient:
            answer_within(handle, ANSWER_WITHIN_S)
        self._log = handle.getListState("log", _LOG)
        self._plan = handle.getValueState("plan", _PLAN)
        self._timeouts = handle.getValueState("timeouts", _TIMEOUTS)
        self._fingerprint = handle.getValueState("timeouts_fingerprint", _FINGERPRINT)
        self._initial: dict[int, dict[int, bytes]] = {}
        self._begun: dict[int, OpenInGroup] = {}

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Take one blob of the log that a group begins with. Blobs come one by one, in any order."""
        group = self._number[int(key[0])]
        blobs = self._initial.setdefault(group, {})
        blobs[initialState.number] = bytes(initialState.blob)
        if len(blobs) < initialState.of:
            return
        log = [self._initial[group][number] for number in range(initialState.of)]
        del self._initial[group]
        bounds = self._bounds(timerValues, 0)
        step = take_initial(group, self._shared, [decode(blob) for blob in log], bounds)
        self._put_log((blob,) for blob in log)
        self._move_timer(NO_PLAN, step.plan, bounds)
        self._plan.update(tuple(step.plan))
        if step.open_in_group is not None:
            self._begun[group] = step.open_in_group

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Append the new events, or merge when a session may be final. ``rows``: packed rows."""
        began = time.monotonic()
        group, share = self._number[int(key[0])], GroupShare()
        for row in rows:
            share.take(row.kind, row.blob)
        output = Output(group)
        if share.seeds:  # the batch only begins a lineage: it keeps timeouts, reports open sessions and decides nothing
            self._changed_timeouts(share.changed_timeouts)
            output.step(GroupChanges(NO_PLAN, open_in_group=self._begun.get(group)))
            yield from output.rows
            return
        # a group that got neither events nor changes has no use for what it keeps
        concerned = share.events or share.timeouts
        arrivals = Arrivals(share.events, self._changed_timeouts(share.changed_timeouts) if concerned else {})
        bounds, planned = self._bounds(timerValues, share.floor_ms), self._planned()
        step = take_batch(group, self._shared, planned, arrivals, bounds, self._read_log)
        self._apply(step, planned, bounds)
        for blob in share.quarantined:
            output.row(kinds.QUARANTINE, decode(blob).num_rows, blob)
        output.step(step, began)
        if share.shows_open:  # the timer is moved behind this batch by now, so nothing changes the group after this
            for part in take_snapshot(self._read_log(), group, self._shared, bounds.final_by):
                output.row(kinds.SNAPSHOT, part.num_rows, encode(part))
        yield from output.rows

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Merge a group that is due, with or without new data. A group that was merged in this batch is left alone."""
        began = time.monotonic()
        group, bounds, planned = self._number[int(key[0])], self._bounds(timerValues, 0), self._planned()
        if (step := take_timer(group, self._shared, planned, bounds, self._read_log)) is not None:
            self._apply(step, planned, bounds)
            output = Output(group)
            output.step(step, began)
            yield from output.rows

    def close(self) -> None:
        """Freeze the imports of the batch. Nothing else of ours outlives it."""
        freeze_imports(type(self).__name__)

    def _bounds(self, timer_values: Any, floor_ms: int) -> BatchBounds:
        clock = self._shared.rules.clock
        watermark = timer_values.getCurrentWatermarkInMs() if clock.has_watermark else 0
        return BatchBounds.of(clock, watermark, timer_values.getCurrentProcessingTimeInMs(), floor_ms)

    def _changed_timeouts(self, changes: dict[str, int]) -> Mapping[str, int]:
        if not self._shared.rules.clock.has_gaps:
            return {}
        kept = self._fingerprint.get()
        known = read_kept_timeouts(kept[0], self._read_timeouts) if kept else {}
        if not changes:
            return known
        fingerprint, blob = keep_timeouts({**known, **changes})
        self._fingerprint.update((fingerprint,))
        self._timeouts.update((blob,))
        return read_kept_timeouts(fingerprint, lambda: blob)

    def _read_timeouts(self) -> bytes:
        (blob,) = self._timeouts.get() or ()
        return bytes(blob)

    def _read_log(self) -> list[pa.Table]:
        return [decode(row[0]) for row in self._log.get()]

    def _planned(self) -> MergeSchedule:
        value = self._plan.get()
        return MergeSchedule(None if value[0] is None else int(value[0]), int(value[1])) if value else NO_PLAN

    def _apply(self, step: GroupChanges, planned: MergeSchedule, bounds: BatchBounds) -> None:
        for piece in log_tables(step.append) if step.append is not None else ():
            self._log.appendValue(_encode_value(piece))
        if step.merged is not None and step.merged.tombstones is not None:
            self._log.appendValue(_encode_value(step.merged.tombstones))
        elif step.merged is not None and step.merged.open_events:
            self._put_log(_encode_value(piece) for table in step.merged.open_events for piece in log_tables(table))
        elif step.merged is not None:
            self._log.clear()
        self._move_timer(planned, step.plan, bounds)
        if step.plan == NO_PLAN:
            self._plan.clear()
        elif step.plan != planned:
            self._plan.update(tuple(step.plan))

    def _put_log(self, values: Iterator[tuple[bytes]]) -> None:
        self._log.put([next(values)])
        for value in values:
            self._log.appendValue(value)

    def _move_timer(self, planned: MergeSchedule, plan: MergeSchedule, bounds: BatchBounds) -> None:
        """Keep exactly one timer. One at or before ``final_by`` fires in this batch and is gone after it."""
        is_moved = plan.at != planned.at
        if is_moved and planned.at is not None and planned.at > bounds.final_by:
            self._handle.deleteTimer(planned.at)
        if is_moved and plan.at is not None:
            self._handle.registerTimer(plan.at)


def _encode_value(table: pa.Table) -> tuple[bytes]:
    return (encode(table.combine_chunks()),)
