"""The stream without Spark: key groups as the operator drives them, state in memory, through the product's own core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import pyarrow as pa

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.outcome import Session
from sessionizer.core.definition.plain_values import plain_values
from sessionizer.core.definition.rules import Clock, SessionRules
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
from sessionizer.core.key_group.group_load import NOTHING_OPEN, OpenInGroup
from sessionizer.core.key_group.merging import Merged, merge
from sessionizer.core.wire import schema
from sessionizer.core.wire.canonical import log_of
from sessionizer.core.wire.codec import decode, decode_log, encode, log_tables
from sessionizer.core.wire.schema import Payload
from support.streams.payloads import arrow_column, shown

PAYLOAD = [pa.field("action", pa.string()), pa.field("amount", pa.int64())]
Row = tuple[object, ...]


@dataclass
class Group:
    """State of one group, as Spark would keep it."""

    log: list[bytes] = field(default_factory=list)
    plan: MergeSchedule = NO_PLAN
    open_in_group: OpenInGroup = NOTHING_OPEN

    def stored(self) -> list[pa.Table]:
        return [decode(blob) for blob in self.log]

    def read(self) -> list[pa.Table]:
        return decode_log(self.log)

    def apply(self, step: GroupChanges) -> None:
        if step.append is not None:
            self.log += map(encode, log_tables(step.append))
        if step.merged is not None and step.merged.tombstones is not None:
            self.log.append(encode(step.merged.tombstones))
        elif step.merged is not None:
            self.log = [encode(piece) for table in step.merged.open_events for piece in log_tables(table)]
        self.plan = step.plan
        if step.open_in_group is not None:
            self.open_in_group = step.open_in_group.combine(self.open_in_group)


class InMemoryGroups:
    """Runs batches; what was emitted is in ``sessions``, ``late``, ``conflicting`` and ``repeated``."""

    def __init__(self, rules: SessionRules, key_groups: int) -> None:
        self.shared = GroupRules(rules, PAYLOAD, key_groups)
        self.groups = [Group() for _ in range(key_groups)]
        self.sessions: list[Row] = []
        self.shown_by: dict[Row, Payload] = {}
        """The payload columns that each session was emitted with; what it is but for its events identifies it."""
        self.late: Counter[Row] = Counter()
        self.conflicting: Counter[Row] = Counter()
        self.repeated = 0
        self._watermark_ms = self._floor_ms = self._final_by = 0
        self._changes: dict[str, int] = {}

    def take(self, batch: Batch, payload: Payload | None = None) -> None:
        """``payload``: the columns that the spec has from this batch on, if they are others."""
        rules = replace(batch.rules or self.shared.rules, emit_every_ms=self.shared.rules.emit_every_ms)
        self.shared = replace(self.shared, rules=rules, payload=self.shared.payload if payload is None else payload)
        self._changes |= batch.timeout_changes
        watermark = max(self._watermark_ms, self._floor_ms)
        self._floor_ms = max(self._floor_ms, batch.floor_ms or 0)
        clock = BatchBounds.of(rules.clock, watermark, batch.arrived_at_ms, batch.floor_ms or 0)
        told = batch.floor_ms is not None or batch.timeout_changes
        for number, group in enumerate(self.groups):
            events = [event for event in batch.events if group_of(event.key, len(self.groups)) == number]
            if events or told:
                arrivals = Arrivals(self._tables(events, batch.arrived_at_ms), dict(self._changes))
                self._carry_out(group, take_batch(number, self.shared, group.plan, arrivals, clock, group.stored))
        for number, group in enumerate(self.groups):
            step = take_timer(number, self.shared, group.plan, clock, group.stored)
            if step is not None:
                self._carry_out(group, step)
        shown = (min(event.event_time_ms or 0, batch.arrived_at_ms) for event in batch.events)  # as the guard has it
        self._watermark_ms = max([self._watermark_ms, *(at - rules.watermark_delay_ms for at in shown)])
        self._final_by = clock.final_by

    def begin_with(self, rows: pa.Table, watermark_ms: int = 0) -> None:
        """Have the groups, in which there is nothing, begin with open events by ``canonical_schema``."""
        of_group = [group_of(key, len(self.groups)) for key in rows.column(schema.KEY).to_pylist()]
        bounds = BatchBounds(watermark_ms, watermark_ms, 0)
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        for number, group in enumerate(self.groups):
            log = log_of(rows.filter(pa.array([of == number for of in of_group], pa.bool_())))
            group.log = [encode(table) for table in log]
            if log:
                group.apply(take_initial(number, self.shared, log, bounds))

    def settle(self) -> tuple[list[Row], Counter[Row]]:
        """All sessions that are final, emitted or only about to be, and the events that are open."""
        sessions, open_events = list(self.sessions), Counter[Row]()
        for group in self.groups:
            if group.log:
                merged = merge(group.read(), self._final_by, self.shared.rules, self.shared.payload)
                sessions += self._shown(merged)
                open_events += sum(map(event_rows, merged.open_events), Counter())
                self.conflicting += event_rows(merged.conflicting)
                self.repeated += merged.repeated
        return sessions, open_events

    def _carry_out(self, group: Group, step: GroupChanges) -> None:
        group.apply(step)
        self.late += event_rows(step.late)
        if step.merged is not None:
            self.sessions += self._shown(step.merged)
            self.conflicting += event_rows(step.merged.conflicting)
            self.repeated += step.merged.repeated

    def _shown(self, merged: Merged) -> list[Row]:
        rows = session_rows(merged.sessions)
        self.shown_by.update(dict.fromkeys((row[:-1] for row in rows), self.shared.payload))
        return rows

    @property
    def final_by(self) -> int:
        """How far time had come in the last batch, epoch ms."""
        return self._final_by

    def fresh(self, key_groups: int) -> InMemoryGroups:
        new = InMemoryGroups(self.shared.rules, key_groups)
        new.shared = replace(self.shared, key_groups=key_groups)
        new._watermark_ms, new._floor_ms, new._final_by = self._watermark_ms, self._floor_ms, self._final_by
        new._changes = dict(self._changes)
        return new

    def _tables(self, events: Sequence[Event], arrived_at_ms: int) -> list[pa.Table]:
        """One table per event and its neighbour: a batch reaches a group in several blobs."""
        pairs = [events[start : start + 2] for start in range(0, len(events), 2)]
        return [
            decode(encode(event_table(pair, self.shared.rules, arrived_at_ms, self.shared.payload))) for pair in pairs
        ]


def group_of(key: str, key_groups: int) -> int:
    return crc32(key.encode()) % key_groups


def event_table(
    events: Sequence[Event], rules: SessionRules, arrived_at_ms: int, payload: Payload | None = None
) -> pa.Table:
    """Events as the guard hands them to the packing."""
    payload = PAYLOAD if payload is None else payload
    on_arrival = rules.clock is not Clock.EVENT_TIME
    columns: dict[str, list[Any]] = {
        schema.KEY: [event.key for event in events],
        schema.CLIENT: [event.client for event in events],
        schema.CLOCK: [arrived_at_ms if on_arrival else event.event_time_ms for event in events],
        schema.TIE: [event.event_time_ms or 0 for event in events],
        schema.EVENT_ID: [event.event_id for event in events],
        schema.CLOSES: [event.closes for event in events],
        schema.TIMEOUT: [event.timeout_ms for event in events],
    }
    kinds = schema.event_schema(payload, rules.clock)
    for position, column in enumerate(payload):
        columns[schema.payload_field(column).name] = [event.payload[position] for event in events]
    return pa.table([arrow_column(columns[column.name], column.type) for column in kinds], schema=kinds)


def event_rows(table: pa.Table | None) -> Counter[Row]:
    """Events by what identifies them; the timeout is left out, being the one in force or the event's own."""
    time = schema.TIE if table is not None and schema.TIE in table.column_names else schema.CLOCK
    names = (schema.KEY, schema.CLIENT, schema.EVENT_ID, schema.CLOSES, time)
    prefix = f"{schema.PAYLOAD}_"
    return Counter(
        (
            *(row[name] for name in names),
            shown({name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}),
        )
        for row in plain_rows(table)
    )


def event_row_of(event: Event) -> Row:
    return (event.key, event.client, event.event_id, event.closes, event.event_time_ms or 0, payload_of(event))


def event_rows_of(events: Iterable[Event]) -> Counter[Row]:
    return Counter(map(event_row_of, events))


def session_rows(sessions: pa.RecordBatch | None) -> list[Row]:
    """Sessions as comparable rows, times in ms, the events last."""
    return [
        (
            row["key"], row["client"], row["started_at"] // 1000, row["ended_at"] // 1000, row["event_count"],
            row["close_reason"], row["first_event_id"], tuple(map(_event_of_session, row["events"])),
        )
        for row in plain_rows(sessions)
    ]  # fmt: skip


def _event_of_session(event: dict[str, Any]) -> Row:
    payload = {name: value for name, value in event.items() if name not in ("event_time", "event_id", "closes")}
    return (event["event_id"], event["closes"], shown(payload))


def plain_rows(table: pa.Table | pa.RecordBatch | None) -> list[dict[str, Any]]:
    if table is None:
        return []
    columns = [plain_values(table.column(name)) for name in table.schema.names]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def row_of(session: Session, payload: Payload | None = None) -> Row:
    """A session of the oracle in the columns of ``session_rows``, with the columns of ``payload`` if one is given."""
    events = tuple((event.event_id, event.closes, payload_of(event, payload)) for event in session.events)
    return (
        session.key, session.client, session.started_at_ms, session.ended_at_ms, session.event_count,
        session.close_reason.value, session.events[0].event_id, events,
    )  # fmt: skip


def payload_of(event: Event, payload: Payload | None = None) -> str:
    names = event.columns or tuple(column.name for column in PAYLOAD)
    return shown(dict(zip(names, event.payload, strict=bool(event.payload))), payload)
