"""The decision of a key group to append its share of a batch, or to merge. The adapter carries it out.

A group's state is a log of tables of open events (``schema.event_schema``) and a plan. If no session is due in a batch,
the group only appends. The cost then depends on the new events, not on the open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.definition.rules import NEVER_MS, Clock, SessionRules
from sessionizer.core.key_group.cutting import Int64s, int64s
from sessionizer.core.key_group.group_load import NOTHING_OPEN, OpenInGroup, latest
from sessionizer.core.key_group.merging import Merged, merge
from sessionizer.core.wire import schema
from sessionizer.core.wire.codec import drop_deleted, find_appended_tables, mark_admitted, read_admission_threshold
from sessionizer.core.wire.schema import Payload


class Admitted(NamedTuple):
    """A batch's events of one group, split into admitted and late ones. Either table may be empty."""

    admitted: pa.Table
    late: pa.Table


def admit(events: pa.Table, late_before_ms: int, rules: SessionRules, timeout_changes: Mapping[str, int]) -> Admitted:
    """Split off the events at or before ``late_before_ms``, and set each other event's timeout in force (ms)."""
    is_late = int64s(events, schema.CLOCK) <= late_before_ms
    late = events.filter(pa.array(is_late)) if is_late.any() else events.slice(0, 0)
    on_time = events.filter(pa.array(~is_late)) if is_late.any() else events
    in_force = _timeouts_in_force(on_time, rules, timeout_changes)
    position = on_time.column_names.index(schema.TIMEOUT)
    admitted = on_time.set_column(position, on_time.schema.field(schema.TIMEOUT), in_force)
    return Admitted(mark_admitted(admitted, late_before_ms, rules.caps), late)


def _timeouts_in_force(events: pa.Table, rules: SessionRules, changes: Mapping[str, int]) -> pa.Array:
    """Return each event's own timeout (ms), else its client's, else the default.

    A timeout is at most ``NEVER_MS``, because a sum with a longer one would overflow.
    """
    if not rules.clock.has_gaps:
        return pa.array(np.full(events.num_rows, NEVER_MS))
    timeout = events.column(schema.TIMEOUT)
    if timeout.null_count:
        if rules.client_timeouts_ms or changes:
            # only the clients of these rows are looked up, because many more may have a timeout
            clients = events.column(schema.CLIENT).combine_chunks().dictionary_encode()
            names, known = clients.dictionary.to_pylist(), (changes, rules.client_timeouts_ms)
            found = [next((of[name] for of in known if name in of), None) for name in names]
            timeout = pc.coalesce(timeout, pa.array(found, pa.int64()).take(clients.indices))
        timeout = pc.coalesce(timeout, pa.scalar(rules.gap_timeout_ms, pa.int64()))
    return pa.array(np.minimum(timeout.to_numpy(), NEVER_MS))


def earliest_due(admitted: pa.Table, rules: SessionRules) -> int | None:
    """Return the earliest instant (epoch ms) at which one of these events could end a session, or None for never.

    The result is a lower bound: a later event may prolong the session, and the state is not read to find out. Without
    a timeout any event may reach a cap, so the group is merged as soon as possible.
    """
    if not rules.clock.has_gaps and any(rules.caps):
        due = int(int64s(admitted, schema.CLOCK).min())
    else:
        due = int(_own_due(admitted).min())
    return due if due < NEVER_MS else None


def latest_due(admitted: pa.Table) -> int | None:
    """Return the latest instant (epoch ms) at which one of these events could end a session, or None for never."""
    due = _own_due(admitted)
    some_day = due[due < NEVER_MS]
    return int(some_day.max()) if len(some_day) else None


def _own_due(admitted: pa.Table) -> Int64s:
    """Return when each event would end its session if no other event came."""
    clock = int64s(admitted, schema.CLOCK)
    return np.where(admitted.column(schema.CLOSES).to_numpy(), clock, clock + int64s(admitted, schema.TIMEOUT))


TABLES_BEFORE_MERGE: Final = 32
"""A log that has grown by this many tables is merged, due or not. That bounds what a merge must read."""
HEAVY_TABLE_BYTES: Final = 2**24
"""A table counts as one more table for each multiple of this size (bytes)."""


class MergeSchedule(NamedTuple):
    """The instant of the group's next merge and the number of tables appended since the last one.

    ``at`` is in epoch ms, None for never. A heavy table counts as several (``HEAVY_TABLE_BYTES``).
    """

    at: int | None
    appended: int


NO_PLAN: Final = MergeSchedule(None, 0)


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """The thresholds and the clock of a batch, in epoch ms.

    An event at or before ``late_before`` is late. A session due at or before ``final_by`` is final. ``arrived_at`` is
    the batch's wall clock, the same in every replay.
    """

    late_before: int
    final_by: int
    arrived_at: int

    @classmethod
    def of(cls, clock: Clock, watermark_ms: int, arrived_at_ms: int, floor_ms: int) -> BatchBounds:
        """Return the bounds of a batch from Spark's watermark, its wall clock and the highest floor of punctuations.

        A floor moves the watermark. The floor that drains makes every session final on any clock.
        """
        watermark_ms = max(watermark_ms, floor_ms)
        final_by = NEVER_MS if floor_ms >= NEVER_MS else clock.final_by(watermark_ms, arrived_at_ms)
        return cls(clock.late_before(watermark_ms, arrived_at_ms), final_by, arrived_at_ms)


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The rules, payload and number of groups that all groups of a stream share.

    ``shows_events``: whether a snapshot of the open sessions has their events, because measures are made of them.
    """

    rules: SessionRules
    payload: Payload
    key_groups: int
    shows_events: bool = False

    def align_due(self, due_ms: int | None, group: int) -> int | None:
        """Return ``due_ms``, moved up to the next emission instant of ``group``.

        Each group has its own phase on the grid, so that the groups merge in turn and no batch merges all of them.
        """
        every_ms = self.rules.emit_every_ms
        if due_ms is None or every_ms <= 0:
            return due_ms
        phase = group * every_ms // self.key_groups
        return -((phase - due_ms) // every_ms) * every_ms + phase


@dataclass(slots=True)
class GroupChanges:
    """The changes to a group's state, and the rows to emit.

    ``append`` is a table to add to the log, in the pieces of ``log_tables``. After ``merged`` the log gets
    ``merged.tombstones``, or is ``merged.open_events`` if there are none. ``open_in_group`` describes the open events
    after the step, None if nothing changed.
    """

    plan: MergeSchedule
    append: pa.Table | None = None
    merged: Merged | None = None
    late: pa.Table | None = None
    open_in_group: OpenInGroup | None = None


@dataclass(slots=True)
class Arrivals:
    """A group's share of a batch: the packed ``events``, and the clients' timeouts (ms) changed so far."""

    events: Sequence[pa.Table] = ()
    timeout_changes: Mapping[str, int] = field(default_factory=dict)


def take_batch(
    group: int,
    shared: GroupRules,
    planned: MergeSchedule,
    arrivals: Arrivals,
    bounds: BatchBounds,
    read_log: Callable[[], Sequence[pa.Table]],
) -> GroupChanges:
    """Return the step of ``group`` for its arrivals. ``read_log`` is called only if the step is a merge.

    It returns all tables of the log, tombstones included.
    """
    late, new, due = _admit(group, shared, arrivals, bounds)
    due = min((at for at in (due, planned.at) if at is not None), default=None)
    is_due = bounds.final_by >= NEVER_MS or (due is not None and due <= bounds.final_by)  # all is due in a drain
    must_merge = is_due or planned.appended >= TABLES_BEFORE_MERGE
    if must_merge and not _can_wait(shared.rules, planned, new, bounds):
        step = _merge(group, shared, read_log(), bounds, new)
    else:
        step = GroupChanges(_plan_next(due, planned.appended + sum(map(_weight, new)), bounds))
        if new:
            step.append = new[0]
            step.open_in_group = OpenInGroup(
                sessions=len(new[0].column(schema.KEY).unique()),
                latest_due_ms=latest(shared.align_due(latest_due(new[0]), group), step.plan.at),
                held_bytes=int(new[0].nbytes),
                admitted=new[0].num_rows,
                merged=False,
            )
    step.late = late
    return step


def take_timer(
    group: int,
    shared: GroupRules,
    planned: MergeSchedule,
    bounds: BatchBounds,
    read_log: Callable[[], Sequence[pa.Table]],
) -> GroupChanges | None:
    """Return the step of ``group`` when its timer fires, or None if it was merged earlier in this batch."""
    if planned.at is None or planned.at > bounds.final_by:
        return None
    return _merge(group, shared, read_log(), bounds)


def take_initial(group: int, shared: GroupRules, log: Sequence[pa.Table], bounds: BatchBounds) -> GroupChanges:
    """Return the first step of ``group``, which begins with all tables of ``log`` as its state. It is not merged.

    Its timer is after the instant up to which this batch is final, so that the batch emits none of its sessions.
    """
    undecided = sum(_weight(table) for table in find_appended_tables(log) if read_admission_threshold(table))
    log = drop_deleted(log)
    due = min((at for at in (earliest_due(table, shared.rules) for table in log) if at is not None), default=None)
    plan = _plan_next(shared.align_due(due, group), undecided, bounds)
    keys = pa.chunked_array([chunk for table in log for chunk in table.column(schema.KEY).chunks], pa.string())
    open_in_group = OpenInGroup(
        sessions=len(keys.unique()),
        latest_due_ms=latest(shared.align_due(latest(*map(latest_due, log)), group), plan.at),
        held_bytes=sum(int(table.nbytes) for table in log),
        admitted=0,
        merged=True,
    )
    return GroupChanges(plan, open_in_group=open_in_group)


def _can_wait(rules: SessionRules, planned: MergeSchedule, new: Sequence[pa.Table], bounds: BatchBounds) -> bool:
    """Whether a group may leave its due sessions to the next batch: once after each merge, and only in a backlog.

    In a backlog a batch spans more event time than ``emit_every``, and each merge would rewrite all open events. The
    group's newest event decides. Spark's watermark follows it and advances by at least ``emit_every``, so the next
    batch comes even without new data. The event is also so old that another batch as long as this one must be waiting.
    """
    if not rules.emit_every_ms or planned.appended or not new:
        return False
    newest = int(int64s(new[0], schema.CLOCK).max())
    advance_ms = newest - rules.watermark_delay_ms - bounds.final_by
    return rules.emit_every_ms <= advance_ms <= bounds.arrived_at - newest


def _weight(table: pa.Table) -> int:
    return 1 + int(table.nbytes) // HEAVY_TABLE_BYTES


def _admit(
    group: int, shared: GroupRules, arrivals: Arrivals, bounds: BatchBounds
) -> tuple[pa.Table | None, list[pa.Table], int | None]:
    """Return the late events, the admitted ones as no or one table, and when they could first end a session (ms)."""
    if not arrivals.events:
        return None, [], None
    events = pa.concat_tables(arrivals.events)
    admitted, late = admit(events, bounds.late_before, shared.rules, arrivals.timeout_changes)
    if not admitted.num_rows:
        return late, [], None
    return late, [admitted], shared.align_due(earliest_due(admitted, shared.rules), group)


def _merge(
    group: int, shared: GroupRules, log: Sequence[pa.Table], bounds: BatchBounds, new: Sequence[pa.Table] = ()
) -> GroupChanges:
    log = [*log, *new]
    if not log:
        return GroupChanges(NO_PLAN, open_in_group=NOTHING_OPEN)
    merged = merge(log, bounds.final_by, shared.rules, shared.payload, keeps_log=True)
    plan = _plan_next(shared.align_due(merged.open.due_ms, group), 0, bounds)
    held = merged.open_events if merged.tombstones is None else log
    open_in_group = OpenInGroup(
        sessions=merged.open.sessions,
        latest_due_ms=latest(shared.align_due(merged.open.latest_due_ms, group), plan.at),
        held_bytes=sum(int(table.nbytes) for table in held),
        admitted=sum(table.num_rows for table in new),
        merged=True,
        load=merged.load,
    )
    append = new[0] if new and merged.tombstones is not None else None
    return GroupChanges(plan, append=append, merged=merged, open_in_group=open_in_group)


def _plan_next(due_ms: int | None, appended: int, bounds: BatchBounds) -> MergeSchedule:
    """Return the next plan. Its timer is later than ``bounds.final_by``."""
    return MergeSchedule(None if due_ms is None else max(due_ms, bounds.final_by + 1), appended)
