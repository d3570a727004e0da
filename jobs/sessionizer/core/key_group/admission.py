"""The admission of a group's events: late events leave, the others get the timeout in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.definition.rules import NEVER_MS, SessionRules
from sessionizer.core.key_group.ordering import int64s
from sessionizer.core.wire import schema
from sessionizer.core.wire.codec import mark_admitted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    return pa.array(np.minimum(_timeouts_said(events, rules, changes).to_numpy(), NEVER_MS))


def _timeouts_said(events: pa.Table, rules: SessionRules, changes: Mapping[str, int]) -> pa.ChunkedArray:
    timeout = events.column(schema.TIMEOUT)
    if not timeout.null_count:
        return timeout
    if rules.client_timeouts_ms or changes:
        timeout = pc.coalesce(
            timeout, _find_client_timeouts(events.column(schema.CLIENT), (changes, rules.client_timeouts_ms))
        )
    return pc.coalesce(timeout, pa.scalar(rules.gap_timeout_ms, pa.int64()))


def _find_client_timeouts(clients: pa.ChunkedArray, known: Sequence[Mapping[str, int]]) -> pa.Array:
    """Return each row's timeout (ms) by its client, from the first mapping of ``known`` that has one, else null.

    Only the clients of these rows are looked up, because many more clients may have a timeout.
    """
    encoded = clients.combine_chunks().dictionary_encode()
    found = [next((of[name] for of in known if name in of), None) for name in encoded.dictionary.to_pylist()]
    return pa.array(found, pa.int64()).take(encoded.indices)


def earliest_due(admitted: pa.Table, rules: SessionRules) -> int | None:
    """Return the earliest instant (epoch ms) at which one of these events could end a session, or None for never.

    The result is a lower bound: a later event may prolong the session, and the state is not read to find out. Without
    a timeout any event may reach a cap, so the group is merged as soon as possible.
    """
    clock = int64s(admitted, schema.CLOCK)
    quiet_until = clock + int64s(admitted, schema.TIMEOUT)
    if not rules.clock.has_gaps and (rules.max_events or rules.max_duration_ms or rules.max_bytes):
        quiet_until = clock
    closes = admitted.column(schema.CLOSES).to_numpy()
    due = int(np.where(closes, clock, quiet_until).min())
    return due if due < NEVER_MS else None


def latest_due(admitted: pa.Table) -> int | None:
    """Return the latest instant (epoch ms) at which one of these events could end a session, or None for never."""
    clock = int64s(admitted, schema.CLOCK)
    closes = admitted.column(schema.CLOSES).to_numpy()
    due = np.where(closes, clock, clock + int64s(admitted, schema.TIMEOUT))
    some_day = due[due < NEVER_MS]
    return int(some_day.max()) if len(some_day) else None


def align_due(due_ms: int | None, emit_every_ms: int, group: int, groups: int) -> int | None:
    """Return ``due_ms``, moved up to the group's next emission instant.

    Each group has its own phase on the grid, so that the groups merge in turn and no batch merges all of them.
    """
    if due_ms is None or emit_every_ms <= 0:
        return due_ms
    phase = group * emit_every_ms // groups
    return -((phase - due_ms) // emit_every_ms) * emit_every_ms + phase
