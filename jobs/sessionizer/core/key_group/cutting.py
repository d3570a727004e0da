"""The cuts between sessions (docs/sessions.md, 7 and 8), on arrays of many keys at once.

The readable definition is ``sessionizer.core.definition.oracle``. This module does the same on columns.

Values of any type are compared by small numbers (*codes*), because some are no Python object, such as an instant in the
year 10000. Null equals null, NaN equals NaN, and minus zero equals zero.

The clients' changed timeouts are decoded once for all groups that have the same. A table of 100,000 clients is a blob
of 0.5 to 1.2 MB, which each group of a Python process would else read from the state and decode in each batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sessionizer.core.definition.outcome import CloseReason
from sessionizer.core.definition.rules import NEVER_MS, Caps
from sessionizer.core.wire import schema
from sessionizer.core.wire.codec import decode, encode

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

REASONS = np.array(list(CloseReason), dtype=object)
_CLOSING, _MAX_EVENTS, _MAX_BYTES, _GAP, _MAX_DURATION = range(len(REASONS))


@dataclass(frozen=True, slots=True)
class OrderedEvents:
    """Columns of events in the order of ``session_order``: by key, and within a key in session order.

    ``max_events``, ``max_duration`` (ms) and ``max_bytes`` are the caps of a session that ends with the event,
    ``NEVER_MS`` for none. ``bytes_before`` is the size (bytes) of all events before each event, with the size of all
    as one more element. It is None if no cap needs it.
    """

    key: Int64s
    clock: Int64s
    closes: Bools
    timeout: Int64s
    max_events: Int64s
    max_duration: Int64s
    max_bytes: Int64s
    bytes_before: Int64s | None = None

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Sessions as runs of rows: ``first`` to ``last`` inclusive, when each is due (epoch ms) and why it ends.

    ``reason`` is a position in ``REASONS``.
    """

    first: Int64s
    last: Int64s
    due: Int64s
    reason: NDArray[np.int8]

    @property
    def length(self) -> Int64s:
        """Number of events of each session."""
        return self.last - self.first + 1

    def final(self, final_by_ms: int) -> Bools:
        """Return which sessions can no longer change after all events up to ``final_by_ms`` (epoch ms) have come."""
        return self.due <= final_by_ms


def cut_sessions(events: OrderedEvents) -> Cuts:
    """Return all sessions of the events, finished or not."""
    if not len(events):
        nothing = np.empty(0, np.int64)
        return Cuts(nothing, nothing, nothing, np.empty(0, np.int8))
    same_key = events.key[1:] == events.key[:-1]
    beyond_gap = events.clock[1:] > events.clock[:-1] + events.timeout[:-1]
    begins = np.empty(len(events), np.bool_)
    begins[0] = True
    begins[1:] = ~same_key | events.closes[:-1] | beyond_gap
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(events)) - 1
    first, last = _apply_caps(events, first, last)
    return _explain(events, first, last)


def _apply_caps(events: OrderedEvents, first: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
    """Split the few runs that exceed a cap. Each cut depends on the one before, which is why there is a loop."""
    exceeding = last - first >= events.max_events.min()
    exceeding |= events.clock[last] - events.clock[first] > events.max_duration.min()
    if events.bytes_before is not None:
        exceeding |= events.bytes_before[last] - events.bytes_before[first] >= events.max_bytes.min()
    if not exceeding.any():
        return first, last
    runs = zip(first[exceeding].tolist(), last[exceeding].tolist(), strict=True)
    # each event has the same caps, unless the rules were changed
    kinds = (events.max_events, events.max_duration, events.max_bytes)
    cap_run = _cap_run if all((caps == caps[0]).all() for caps in kinds) else _cap_run_event_by_event
    extra = [start for run in runs for start in cap_run(events, *run)]
    first = np.sort(np.concatenate([first, np.array(extra, np.int64)]))
    return first, np.append(first[1:], last[-1] + 1) - 1


def _cap_run(events: OrderedEvents, start: int, last: int) -> list[int]:
    """Return the first rows of the further sessions into which the caps split the run ``start..last``."""
    clock, bytes_before = events.clock, events.bytes_before
    max_events, max_duration, max_bytes = events.max_events[0], events.max_duration[0], events.max_bytes[0]
    starts: list[int] = []
    while True:
        limit = clock[start] + max_duration
        in_time = start + int(np.searchsorted(clock[start : last + 1], limit, side="right"))
        following = min(last + 1, start + int(max_events), in_time)
        if bytes_before is not None:
            following = min(following, int(np.searchsorted(bytes_before, bytes_before[start] + max_bytes)))
        if following > last:
            return starts
        starts.append(following)
        start = following


def _cap_run_event_by_event(events: OrderedEvents, start: int, last: int) -> list[int]:
    """Do the same as ``_cap_run`` if each event has its own caps."""
    starts: list[int] = []
    for row in range(start, last):
        full = row - start + 1 >= events.max_events[row]
        if events.bytes_before is not None:
            full |= events.bytes_before[row + 1] - events.bytes_before[start] >= events.max_bytes[row]
        if full or events.clock[row + 1] - events.clock[start] > events.max_duration[row]:
            start = row + 1
            starts.append(start)
    return starts


def _explain(events: OrderedEvents, first: Int64s, last: Int64s) -> Cuts:
    """Return the sessions with the reason why each ends and the instant when that is certain.

    The first reason that applies counts.
    """
    following = np.minimum(last + 1, len(events) - 1)
    has_next = (last + 1 < len(events)) & (events.key[following] == events.key[last])
    quiet_until = np.minimum(events.clock[last] + events.timeout[last], NEVER_MS)
    closing = events.closes[last]
    full = last - first + 1 >= events.max_events[last]
    heavy = np.zeros(len(first), np.bool_)
    if events.bytes_before is not None:
        heavy = events.bytes_before[last + 1] - events.bytes_before[first] >= events.max_bytes[last]
    gap = ~has_next | (events.clock[following] > quiet_until)
    conditions = [closing, full, heavy, gap]
    reason = np.select(conditions, [_CLOSING, _MAX_EVENTS, _MAX_BYTES, _GAP], _MAX_DURATION).astype(np.int8)
    at_last = events.clock[last]
    due = np.select(conditions, [at_last, at_last, at_last, quiet_until], events.clock[following])
    return Cuts(first, last, due, reason)


class CapsOfRows(NamedTuple):
    """The caps of each row of a table, ``NEVER_MS`` if it has none."""

    max_events: Int64s
    max_duration: Int64s
    max_bytes: Int64s

    @classmethod
    def of(cls, caps: Sequence[Caps], which: Int64s) -> CapsOfRows:
        """Return the caps of each row, given for each row its position in ``caps`` (``which``)."""
        each = [[NEVER_MS if cap is None else cap for cap in kind] for kind in zip(*caps, strict=True)]
        if len(caps) == 1:
            return cls(*(np.full(len(which), value) for (value,) in each))
        return cls(*(np.array(values, np.int64)[which] for values in each))


def int64s(table: pa.Table, column: str) -> Int64s:
    """Return a column without nulls as a numpy array."""
    values: Int64s = table.column(column).to_numpy()
    return values


def whole_column(table: pa.Table, column: str) -> pa.Array:
    """Return a column as one array."""
    chunks = table.column(column).combine_chunks()
    return chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks


def codes(table: pa.Table, column: str) -> tuple[Int64s, int]:
    """Return a string column as small numbers, equal exactly if the strings are, and how many there are."""
    encoded = whole_column(table, column).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def session_order(table: pa.Table, key: Int64s) -> Int64s:
    """Return the positions that sort the events by key code, clock, tie, closes and event id.

    Sorting by key and clock orders nearly all events. Only events of equal key and clock need the other columns, of
    which some are strings.
    """
    clock = int64s(table, schema.CLOCK)
    order = _sort_by_key_and_clock(key, clock)
    tied = (key[order[1:]] == key[order[:-1]]) & (clock[order[1:]] == clock[order[:-1]])
    if not tied.any():
        return order
    in_tie = np.append(tied, False) | np.insert(tied, 0, False)
    run = np.cumsum(np.insert(~tied, 0, True))[in_tie]
    columns = [name for name in (schema.TIE, schema.CLOSES, schema.EVENT_ID) if name in table.column_names]
    rows = order[in_tie]
    ties = table.select(columns).take(pa.array(rows)).append_column("run", pa.array(run))
    keys = [("run", "ascending"), *((name, "ascending") for name in columns)]
    order[in_tie] = rows[pc.sort_indices(ties, sort_keys=keys).to_numpy()]
    return order


def _sort_by_key_and_clock(key: Int64s, clock: Int64s) -> Int64s:
    """Return the positions that sort by key and clock.

    If both fit in 63 bits, one integer is sorted. They fit for less than 2^20 keys and 2^42 ms.
    """
    if not len(key):
        return np.empty(0, np.int64)
    earliest = clock.min()
    bits = int(clock.max() - earliest).bit_length()
    if bits + int(key.max()).bit_length() >= np.iinfo(np.int64).bits:
        return np.lexsort((clock, key))
    return np.argsort((key << bits) | (clock - earliest))


def order_events(table: pa.Table, key: Int64s, order: Int64s, caps: CapsOfRows, size: Int64s | None) -> OrderedEvents:
    """Return the columns that decide on cuts, in session order, in which ``caps`` are already.

    ``size`` is the size of each row in bytes, None if no cap counts bytes.
    """
    return OrderedEvents(
        key[order],
        int64s(table, schema.CLOCK)[order],
        table.column(schema.CLOSES).to_numpy()[order],
        int64s(table, schema.TIMEOUT)[order],
        *caps,
        None if size is None else np.concatenate([[0], np.cumsum(size[order])]),
    )


_WIDTH = 8


def equality_codes(values: pa.Array) -> Int64s:
    """Return a number for each value, the same for equal values. Null is 0."""
    return _codes(values, _code_by_appearance)


def order_codes(values: pa.Array) -> Int64s:
    """Return ``equality_codes`` that are also in the order of the values.

    Nested values are compared part by part from the first on.
    """
    return _codes(values, _code_by_order)


def combine_codes(first: Int64s, second: Int64s) -> Int64s:
    """Return a number for each pair, equal if both parts are, in the order of the first, then of the second."""
    pairs = first * (second.max(initial=0) + 1) + second
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)


def _codes(values: pa.Array, of_plain: Callable[[pa.Array], Int64s]) -> Int64s:
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_struct(kind):
        parts = {field.name: part for field, part in zip(kind, values.flatten(), strict=True)}
        codes = np.zeros(len(values), np.int64)
        for name in sorted(parts):  # fields change places
            codes = combine_codes(codes, _codes(parts[name], of_plain))
    elif isinstance(kind, pa.ListType | pa.LargeListType | pa.MapType):
        codes = _code_lists(values, of_plain)
    else:
        codes = of_plain(_plain(values))
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), codes + 1, 0)


def _plain(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0, values.type))  # minus zero becomes zero
    if pa.types.is_interval(values.type):
        return values.view(pa.binary(values.type.bit_width // _WIDTH))
    return values


def _code_by_appearance(values: pa.Array) -> Int64s:
    codes: Int64s = values.dictionary_encode().indices.fill_null(0).to_numpy().astype(np.int64)
    return codes


def _code_by_order(values: pa.Array) -> Int64s:
    encoded = values.dictionary_encode()
    place = np.empty(len(encoded.dictionary), np.int64)
    place[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(place))
    return place[encoded.indices.fill_null(0).to_numpy()] if len(place) else np.zeros(len(values), np.int64)


def _code_lists(values: pa.Array, of_plain: Callable[[pa.Array], Int64s]) -> Int64s:
    """Return the codes of lists, each taken as the bytes of its elements' codes.

    A code is eight bytes, the highest first, so that lists sort in the order of their elements.
    """
    offsets = values.offsets.to_numpy().astype(np.int64)
    elements = values.values
    if isinstance(values, pa.MapArray):
        elements = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
    elements = elements.slice(offsets[0], offsets[-1] - offsets[0])
    data = pa.py_buffer(_codes(elements, of_plain).astype(">i8").tobytes())
    ends = pa.py_buffer(((offsets - offsets[0]) * _WIDTH).tobytes())
    return of_plain(pa.Array.from_buffers(pa.large_binary(), len(values), [None, ends, data]))


_AT_MOST: Final = 8
_opened: dict[bytes, Mapping[str, int]] = {}
"""Timeouts by fingerprint, the most recently used last."""


class KeptTimeouts(NamedTuple):
    """Timeouts in the form in which the state keeps them. The same timeouts have the same ``fingerprint``."""

    fingerprint: bytes
    blob: bytes


def keep_timeouts(timeouts_ms: Mapping[str, int]) -> KeptTimeouts:
    """Encode the timeouts (ms) by client for the state."""
    clients = sorted(timeouts_ms)
    columns = [pa.array(clients, pa.string()), pa.array([timeouts_ms[name] for name in clients], pa.int64())]
    blob = encode(pa.table(columns, names=["client", "timeout_ms"]))
    return KeptTimeouts(hashlib.blake2b(blob, digest_size=16).digest(), blob)


def read_kept_timeouts(fingerprint: bytes, read: Callable[[], bytes]) -> Mapping[str, int]:
    """Return the timeouts (ms) by client that have ``fingerprint``.

    ``read`` returns the blob. It is called only if the timeouts are not cached.
    """
    timeouts = _opened.pop(fingerprint, None)
    if timeouts is None:
        table = decode(read())
        pairs = zip(table.column("client").to_pylist(), table.column("timeout_ms").to_pylist(), strict=True)
        timeouts = MappingProxyType(dict(pairs))
    _opened[fingerprint] = timeouts
    if len(_opened) > _AT_MOST:
        del _opened[next(iter(_opened))]
    return timeouts
