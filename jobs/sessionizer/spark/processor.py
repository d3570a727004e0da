"""The stateful operator: one key group's log of open events, kept in RocksDB by transformWithState.

A thin adapter: it moves blobs between Spark and ``sessionizer.core``, which decides everything.
Per group it keeps three variables, whose Spark schemas never change (the blobs carry their own):

- ``log`` (list of ``blob binary``): one blob per batch since the last merge, then the merged rest;
- ``timer`` (``at long, appended int``): the one registered timer, epoch ms, null for none, and how many blobs the log
  got since the last merge;
- ``timeouts`` (``changes binary``): JSON of the clients' timeouts changed by punctuations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor

from sessionizer.core.admission import admit, aligned, earliest_due
from sessionizer.core.codec import decode, encode
from sessionizer.core.merging import merge
from sessionizer.core.reasons import QuarantineReason
from sessionizer.core.rules import NEVER_MS, Rules, TimeMode
from sessionizer.spark import rows
from sessionizer.spark.rows import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming import StatefulProcessorHandle

    from sessionizer.core.schema import Payload


@dataclass(frozen=True, slots=True)
class Clock:
    """How far time has come in this batch, epoch ms: see the oracle for ``late_before`` and ``final_by``."""

    late_before: int
    final_by: int


class Plan(NamedTuple):
    """When the group is merged next (epoch ms, None for never) and how many blobs were appended since it was."""

    at: int | None
    appended: int


NO_PLAN = Plan(None, 0)

BLOBS_BEFORE_MERGE: Final = 32
"""A log is merged when it has grown by so many blobs, due or not: that bounds what a merge must read."""


@dataclass(slots=True)
class Arrivals:
    """One group's share of a batch."""

    events: list[pa.Table] = field(default_factory=list)
    quarantined: list[bytes] = field(default_factory=list)
    floor_ms: int = 0
    timeouts: dict[str, int] = field(default_factory=dict)

    def take(self, kind: str, blob: bytes) -> None:
        """Sort one packed row in."""
        if kind == rows.EVENTS:
            self.events.append(decode(blob))
        elif kind == rows.QUARANTINE:
            self.quarantined.append(blob)
        else:
            punctuation = json.loads(blob)
            self.floor_ms = max(self.floor_ms, punctuation.get("floor_ms") or 0)
            for change in punctuation.get("timeouts") or []:
                self.timeouts[change["client"]] = change["timeout_ms"]


class SessionProcessor(StatefulProcessor):
    """Sessions of all keys of a group; the grouping key is the group's number."""

    def __init__(self, rules: Rules, payload: Payload, key_groups: int) -> None:
        self._rules, self._payload, self._key_groups = rules, payload, key_groups

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._log = handle.getListState("log", "blob binary")
        self._timer = handle.getValueState("timer", "at long, appended int")
        self._timeouts = handle.getValueState("timeouts", "changes binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Append what came, or merge when something may be final."""
        arrivals = Arrivals()
        for frame in rows:
            for kind, blob in zip(frame["kind"], frame["blob"], strict=True):
                arrivals.take(kind, blob)
        output = Output(int(key[0]))
        for blob in arrivals.quarantined:
            output.blob(QUARANTINE, decode(blob).num_rows, blob)
        clock = self._clock(timerValues, arrivals.floor_ms)
        self._advance(int(key[0]), arrivals, clock, output)
        yield from output.frames()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Merge a group that is due, with or without new data; one already merged in this batch is left alone."""
        clock = self._clock(timerValues, 0)
        planned = self._planned()
        output = Output(int(key[0]))
        if planned.at is not None and planned.at <= clock.final_by:
            self._merge(int(key[0]), planned, [], clock, output)
        yield from output.frames()

    def close(self) -> None:
        """Nothing of ours outlives the batch."""

    def _clock(self, timer_values: Any, floor_ms: int) -> Clock:
        if self._rules.time_mode is TimeMode.EVENT_TIME:
            watermark = max(timer_values.getCurrentWatermarkInMs(), floor_ms)
            return Clock(late_before=watermark, final_by=watermark)
        now = timer_values.getCurrentProcessingTimeInMs()
        return Clock(late_before=now - 1, final_by=max(now, floor_ms))

    def _advance(self, group: int, arrivals: Arrivals, clock: Clock, output: Output) -> None:
        changes = self._changed_timeouts(arrivals.timeouts)
        planned = self._planned()
        new, due = self._admit(group, arrivals, clock, changes, output)
        due = min((at for at in (due, planned.at) if at is not None), default=None)
        is_due = due is not None and due <= clock.final_by
        if is_due or clock.final_by >= NEVER_MS or planned.appended >= BLOBS_BEFORE_MERGE:
            self._merge(group, planned, new, clock, output)
            return
        for table in new:
            self._log.appendValue((encode(table.combine_chunks()),))
        self._plan(planned, Plan(due, planned.appended + len(new)), clock)

    def _admit(
        self, group: int, arrivals: Arrivals, clock: Clock, changes: dict[str, int], output: Output
    ) -> tuple[list[pa.Table], int | None]:
        """The batch's admitted events, as no or one table, and when they could first end a session."""
        if not arrivals.events:
            return [], None
        events = pa.concat_tables(arrivals.events)
        admitted, late = admit(events, clock.late_before, self._rules, changes)
        output.table(rows.LATE, late)
        if not admitted.num_rows:
            return [], None
        return [admitted], self._aligned(earliest_due(admitted, self._rules), group)

    def _merge(self, group: int, planned: Plan, new: list[pa.Table], clock: Clock, output: Output) -> None:
        log = [decode(bytes(row[0])) for row in self._log.get()] + new
        if not log:
            self._plan(planned, Plan(None, 0), clock)
            return
        merged = merge(log, clock.final_by, self._rules, self._payload)
        output.table(rows.SESSIONS, merged.sessions)
        output.count(rows.REPEATED, merged.repeated)
        output.count(rows.OPEN, merged.open_sessions)
        if merged.conflicting is not None:
            output.table(rows.QUARANTINE, conflicting_rows(merged.conflicting))
        if merged.open_events is None:
            self._log.clear()
        else:
            self._log.put([(encode(merged.open_events.combine_chunks()),)])
        self._plan(planned, Plan(self._aligned(merged.due_ms, group), 0), clock)

    def _aligned(self, due_ms: int | None, group: int) -> int | None:
        return aligned(due_ms, self._rules.emit_every_ms, group, self._key_groups)

    def _changed_timeouts(self, changes: dict[str, int]) -> dict[str, int]:
        """All changes so far, this batch's included."""
        if self._rules.time_mode is TimeMode.NONE:
            return {}
        kept = self._timeouts.get()
        known: dict[str, int] = json.loads(bytes(kept[0])) if kept else {}
        if changes:
            known |= changes
            self._timeouts.update((json.dumps(known, sort_keys=True).encode(),))
        return known

    def _planned(self) -> Plan:
        value = self._timer.get()
        return Plan(None if value[0] is None else int(value[0]), int(value[1])) if value else NO_PLAN

    def _plan(self, current: Plan, plan: Plan, clock: Clock) -> None:
        """Keep exactly one timer. One at or before ``final_by`` fires in this batch and is gone after it."""
        if plan.at is not None:
            plan = Plan(max(plan.at, clock.final_by + 1), plan.appended)
        if plan.at != current.at:
            if current.at is not None and current.at > clock.final_by:
                self._handle.deleteTimer(current.at)
            if plan.at is not None:
                self._handle.registerTimer(plan.at)
        if plan == NO_PLAN:
            self._timer.clear()
        elif plan != current:
            self._timer.update((plan.at, plan.appended))


class Output:
    """What one call emits, as rows of ``rows.EMITTED``."""

    def __init__(self, key_group: int) -> None:
        self._key_group = key_group
        self._rows: list[tuple[str, int, int, bytes | None]] = []

    def blob(self, kind: str, count: int, blob: bytes) -> None:
        """Emit a blob as it is."""
        self._rows.append((kind, self._key_group, count, blob))

    def table(self, kind: str, table: pa.Table | pa.RecordBatch | None) -> None:
        """Emit a table, unless there is nothing in it."""
        if table is not None and table.num_rows:
            self._rows.append((kind, self._key_group, table.num_rows, encode(table)))

    def count(self, kind: str, count: int) -> None:
        """Emit a bare number."""
        self._rows.append((kind, self._key_group, count, None))

    def frames(self) -> Iterator[pd.DataFrame]:
        """At most one frame."""
        if self._rows:
            yield pd.DataFrame(self._rows, columns=["kind", "key_group", "row_count", "blob"])


def conflicting_rows(events: pa.Table) -> pa.Table:
    """Events refused as conflicting duplicates, as quarantine rows; ``_raw`` is the event as JSON."""
    raw = [json.dumps(event, default=str, sort_keys=True) for event in events.to_pylist()]
    reasons = [QuarantineReason.CONFLICTING_DUPLICATE.value] * len(raw)
    nowhere = pa.nulls(len(raw), pa.string())
    return pa.table([pa.array(reasons), pa.array(raw), nowhere], names=rows.QUARANTINE_COLUMNS)
