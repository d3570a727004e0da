"""The stream without Spark: key groups as the operator drives them, state in memory, through the product's own core."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import pyarrow as pa

from sessionizer.core import schema
from sessionizer.core.codec import decode, encode
from sessionizer.core.key_group import (
    NO_PLAN,
    Arrivals,
    Clock,
    GroupRules,
    Plan,
    Step,
    log_tables,
    take_batch,
    take_timer,
)
from sessionizer.core.merging import merge
from sessionizer.core.rules import TimeMode
from sessionizer.core.standing import NOTHING_OPEN, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sessionizer.core.event import Batch, Event
    from sessionizer.core.oracle import Session
    from sessionizer.core.rules import Rules

PAYLOAD = [pa.field("action", pa.string()), pa.field("amount", pa.int64())]
Row = tuple[object, ...]


@dataclass
class Group:
    """State of one group, as Spark would keep it."""

    log: list[bytes] = field(default_factory=list)
    plan: Plan = NO_PLAN
    standing: Standing = NOTHING_OPEN

    def read(self) -> list[pa.Table]:
        return [decode(blob) for blob in self.log]

    def apply(self, step: Step) -> None:
        if step.append is not None:
            self.log += map(encode, log_tables(step.append))
        elif step.merged is not None:
            rest = step.merged.open_events
            self.log = [] if rest is None else [encode(table) for table in log_tables(rest)]
        self.plan = step.plan
        if step.standing is not None:
            self.standing = step.standing.after(self.standing)


class InMemoryGroups:
    """Runs batches; what was emitted is in ``sessions``, ``late``, ``conflicting`` and ``repeated``."""

    def __init__(self, rules: Rules, key_groups: int) -> None:
        self.shared = GroupRules(rules, PAYLOAD, key_groups)
        self.groups = [Group() for _ in range(key_groups)]
        self.sessions: list[Row] = []
        self.late: Counter[Row] = Counter()
        self.conflicting: Counter[Row] = Counter()
        self.repeated = 0
        self._highest_ms = self._floor_ms = self._final_by = 0
        self._changes: dict[str, int] = {}

    def take(self, batch: Batch) -> None:
        rules = self.shared.rules
        self._changes |= batch.timeout_changes
        watermark = max(self._highest_ms - rules.watermark_delay_ms, self._floor_ms, 0)
        self._floor_ms = max(self._floor_ms, batch.floor_ms or 0)
        clock = Clock.of(rules.time_mode, watermark, batch.arrived_at_ms, batch.floor_ms or 0)
        told = batch.floor_ms is not None or batch.timeout_changes
        for number, group in enumerate(self.groups):
            events = [event for event in batch.events if self._group_of(event) == number]
            if events or told:
                arrivals = Arrivals(self._tables(events, batch.arrived_at_ms), dict(self._changes))
                self._carry_out(group, take_batch(number, self.shared, group.plan, arrivals, clock, group.read))
        for number, group in enumerate(self.groups):
            step = take_timer(number, self.shared, group.plan, clock, group.read)
            if step is not None:
                self._carry_out(group, step)
        shown = (min(event.event_time_ms or 0, batch.arrived_at_ms) for event in batch.events)  # as the guard has it
        self._highest_ms = max([self._highest_ms, *shown])
        self._final_by = clock.final_by

    def settle(self) -> tuple[list[Row], Counter[Row]]:
        """All sessions that are final, emitted or only about to be, and the events that are open."""
        sessions, open_events = list(self.sessions), Counter[Row]()
        for group in self.groups:
            if group.log:
                merged = merge(group.read(), self._final_by, self.shared.rules, PAYLOAD)
                sessions += session_rows(merged.sessions)
                open_events += event_rows(merged.open_events)
                self.conflicting += event_rows(merged.conflicting)
                self.repeated += merged.repeated
        return sessions, open_events

    def _carry_out(self, group: Group, step: Step) -> None:
        group.apply(step)
        self.late += event_rows(step.late)
        if step.merged is not None:
            self.sessions += session_rows(step.merged.sessions)
            self.conflicting += event_rows(step.merged.conflicting)
            self.repeated += step.merged.repeated

    def _group_of(self, event: Event) -> int:
        return crc32(event.key.encode()) % len(self.groups)

    def _tables(self, events: Sequence[Event], arrived_at_ms: int) -> list[pa.Table]:
        """One table per event and its neighbour: a batch reaches a group in several blobs."""
        pairs = [events[start : start + 2] for start in range(0, len(events), 2)]
        return [decode(encode(event_table(pair, self.shared.rules, arrived_at_ms))) for pair in pairs]


def event_table(events: Iterable[Event], rules: Rules, arrived_at_ms: int) -> pa.Table:
    """Events as the guard hands them to the packing."""
    on_arrival = rules.time_mode is not TimeMode.EVENT_TIME
    rows = [
        {
            schema.KEY: event.key,
            schema.CLIENT: event.client,
            schema.CLOCK: arrived_at_ms if on_arrival else event.event_time_ms,
            schema.TIE: event.event_time_ms or 0,
            schema.EVENT_ID: event.event_id,
            schema.CLOSES: event.closes,
            schema.TIMEOUT: event.timeout_ms,
            "payload_action": event.payload[0],
            "payload_amount": event.payload[1],
        }
        for event in events
    ]
    return pa.Table.from_pylist(rows, schema=schema.event_schema(PAYLOAD, rules.time_mode))


def event_rows(table: pa.Table | None) -> Counter[Row]:
    """Events by what identifies them; the timeout is left out, being the one in force or the event's own."""
    if table is None:
        return Counter()
    names = [name for name in table.column_names if name not in (schema.TIMEOUT, schema.CLOCK, schema.TIE)]
    time = schema.TIE if schema.TIE in table.column_names else schema.CLOCK
    return Counter(tuple(row[name] for name in [*names, time]) for row in table.to_pylist())


def event_rows_of(events: Iterable[Event]) -> Counter[Row]:
    """Events of the oracle in the columns of ``event_rows``."""
    return Counter(
        (event.key, event.client, event.event_id, event.closes, *event.payload, event.event_time_ms or 0)
        for event in events
    )


def session_rows(sessions: pa.RecordBatch | None) -> list[Row]:
    """Sessions as comparable rows, times in ms."""
    if sessions is None:
        return []
    return [
        (
            row["key"], row["client"], _ms(row["started_at"]), _ms(row["ended_at"]), row["event_count"],
            row["close_reason"], row["first_event_id"],
            tuple((event["event_id"], event["closes"], event["action"], event["amount"]) for event in row["events"]),
        )
        for row in sessions.to_pylist()
    ]  # fmt: skip


def row_of(session: Session) -> Row:
    """A session of the oracle in the columns of ``session_rows``."""
    events = tuple((event.event_id, event.closes, *event.payload) for event in session.events)
    return (
        session.key, session.client, session.started_at_ms, session.ended_at_ms, session.event_count,
        session.close_reason.value, session.events[0].event_id, events,
    )  # fmt: skip


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
