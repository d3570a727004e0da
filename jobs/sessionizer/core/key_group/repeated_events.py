"""Repeated events of a group: the search for duplicates when it is merged (docs/sessions.md, 5).

Rows wait undecided in the group's log, each with the threshold of its batch, so that the verdict does not depend on
the time of the merge. An event is compared with the admitted event of its key and id if the session of the admitted
event was still open when the event came. Ids repeat rarely, so each step first proves that there is nothing to do.
If ids repeat, a whole segment may have been sent again. Batches are then decided one by one, all rows of a batch at
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sessionizer.core.definition.rules import Caps
from sessionizer.core.key_group.cutting import (
    Bools,
    CapsOfRows,
    Int64s,
    codes,
    combine_codes,
    cut_sessions,
    equality_codes,
    int64s,
    order_codes,
    order_events,
    session_order,
    whole_column,
)
from sessionizer.core.wire import schema
from sessionizer.core.wire.event_size import sizes_that_count


@dataclass(frozen=True, slots=True)
class Repeats:
    """The rows of a group whose key has their id more than once. A *member* is a position among these rows.

    ``rows`` are their positions in the group's table, ``identity`` is a number for key and id, ``events`` holds the
    rows. ``instants`` are the first columns of the canonical order. ``body`` has, for each column of the body, a code
    for each value, and a mask of the rows that came with the column (None: all).
    """

    rows: Int64s
    identity: Int64s
    events: pa.Table
    instants: Sequence[Int64s]
    body: Sequence[tuple[Int64s, Bools | None]]

    @classmethod
    def find(
        cls, table: pa.Table, rows: Int64s, identity: Int64s, turn: Int64s, columns: Sequence[frozenset[str]]
    ) -> Repeats:
        """Return the repeats at the positions ``rows`` of ``table``.

        ``turn`` is each row's position in ``columns``, the sets of names of the columns that rows came with.
        """
        time = schema.TIE if schema.TIE in table.column_names else schema.CLOCK  # the arrival is not the event's time
        body = [time, schema.CLOSES, schema.CLIENT, *_payload(table)]
        events = table.select([*body, schema.TIMEOUT]).take(pa.array(rows))
        clock = table.column(schema.CLOCK).to_numpy()[rows]
        came_with = {name: np.array([name in names for names in columns]) for name in body}
        masks = {name: None if came.all() else came[turn] for name, came in came_with.items()}
        codes = [(equality_codes(whole_column(events, name)), masks[name]) for name in body]
        instants = [clock, events.column(time).to_numpy(), events.column(schema.CLOSES).to_numpy().astype(np.int64)]
        return cls(rows, identity, events, instants, codes)

    def differ(self, members: Int64s, others: Int64s) -> Bools:
        """Return which of ``members`` have another body than the member at the same place of ``others``.

        Only columns that both came with are compared. The timeout does not count.
        """
        other = np.zeros(len(members), np.bool_)
        for coded, came in self.body:
            differs = coded[members] != coded[others]
            other |= differs if came is None else differs & came[members] & came[others]
        return other

    def sort_canonically(self, members: Int64s) -> Int64s:
        """Sort ``members`` of one batch by key and id, then in the oracle's canonical order."""
        timeout = self.events.column(schema.TIMEOUT).to_numpy()
        decides = [*reversed(self.instants), self.identity]
        order = members[np.lexsort([timeout[members], *(column[members] for column in decides)])]
        tied = np.ones(len(order) - 1, np.bool_) if len(order) else np.empty(0, np.bool_)
        for column in decides:
            tied &= column[order[1:]] == column[order[:-1]]
        in_tie = np.append(tied, False) | np.insert(tied, 0, False) if len(order) else tied
        disputed = np.flatnonzero(in_tie)
        if not len(disputed) or not self.differ(order[1:][tied], order[:-1][tied]).any():
            return order
        # events of one instant and id are ranked by client, then payload, nulls first
        events, rank = self.events.take(pa.array(order[disputed])), np.zeros(len(disputed), np.int64)
        for name in (schema.CLIENT, *_payload(events)):
            rank = combine_codes(rank, order_codes(whole_column(events, name)))
        run = np.cumsum(np.insert(~tied, 0, True))[disputed]
        order[disputed] = order[disputed][np.lexsort([timeout[order[disputed]], rank, run])]
        return order


def _payload(table: pa.Table) -> list[str]:
    """Return the payload columns by name: their order in a table depends on when others were merged into it."""
    return sorted(name for name in table.column_names if name.startswith(schema.PAYLOAD))


_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Admissions:
    """The batch and the terms by which each row was admitted.

    ``turn`` numbers the batches, ``late_before`` is the threshold of each row's batch (epoch ms). ``terms`` is each
    row's position in ``columns`` and ``caps``: the names of the columns that it came with (the table may have more),
    and its caps.
    """

    turn: Int64s
    late_before: Int64s
    terms: Int64s
    columns: Sequence[frozenset[str]]
    caps: Sequence[Caps]

    def select(self, rows: Int64s) -> Admissions:
        """Return the admissions of the given rows alone."""
        return replace(self, turn=self.turn[rows], late_before=self.late_before[rows], terms=self.terms[rows])


@dataclass(slots=True)
class Verdicts:
    """The verdict on each row: kept, ``repeated`` (same body) or ``conflicting`` (another body)."""

    repeated: Bools
    conflicting: Bools

    @classmethod
    def all_kept(cls, rows: int) -> Verdicts:
        """Return verdicts that keep all ``rows``."""
        return cls(np.zeros(rows, np.bool_), np.zeros(rows, np.bool_))

    @property
    def kept(self) -> Bools:
        """Mask of the rows that belong to sessions."""
        return ~(self.repeated | self.conflicting)


def find_duplicates(table: pa.Table, key: Int64s, admissions: Admissions) -> Verdicts:
    """Decide on every row of a group's events."""
    verdicts = Verdicts.all_kept(table.num_rows)
    event_id, distinct = codes(table, schema.EVENT_ID)
    if distinct == table.num_rows:
        return verdicts
    suspects = np.flatnonzero(np.bincount(event_id, minlength=distinct)[event_id] > 1)
    pairs = key[suspects] * distinct + event_id[suspects]
    _, identity, count = np.unique(pairs, return_inverse=True, return_counts=True)
    is_twice = count[identity] > 1
    rows, identity = suspects[is_twice], identity[is_twice].astype(np.int64)
    if len(rows):
        repeats = Repeats.find(table, rows, identity, admissions.terms[rows], admissions.columns)
        _Deciding(table, key, repeats, admissions, verdicts).decide()
    return verdicts


class _Deciding:
    """The decision on rows that repeat, batch after batch.

    ``_original`` holds, for each key and id, the row that later ones are compared with.
    """

    def __init__(
        self, table: pa.Table, key: Int64s, repeats: Repeats, admissions: Admissions, verdicts: Verdicts
    ) -> None:
        self._table, self._key, self._repeats = table, key, repeats
        self._admissions, self._verdicts = admissions, verdicts
        self._clock = int64s(table, schema.CLOCK)
        self._original = np.full(int(repeats.identity.max()) + 1, _NONE, np.int64)

    def decide(self) -> None:
        """Fill in the verdicts."""
        for members in self._batches():
            first_row = self._repeats.rows[members[0]]
            known = self._known(members, int(self._admissions.late_before[first_row]))
            new = self._repeats.sort_canonically(members[~known])
            identity = self._repeats.identity[new]
            admitted = np.append(True, identity[1:] != identity[:-1])[: len(new)]
            self._original[identity[admitted]] = new[admitted]
            self._refuse(np.concatenate([members[known], new[~admitted]]))

    def _batches(self) -> Iterator[Int64s]:
        """Yield the positions among the repeats, batch by batch in the order of arrival."""
        turn = self._admissions.turn[self._repeats.rows]
        by_turn = np.argsort(turn, kind="stable")
        yield from np.split(by_turn, np.flatnonzero(np.diff(turn[by_turn])) + 1)

    def _refuse(self, members: Int64s) -> None:
        originals = self._original[self._repeats.identity[members]]
        other_body = self._repeats.differ(members, originals)
        self._verdicts.repeated[self._repeats.rows[members[~other_body]]] = True
        self._verdicts.conflicting[self._repeats.rows[members[other_body]]] = True

    def _known(self, members: Int64s, late_before_ms: int) -> Bools:
        """Return which members have an original whose session could still change after ``late_before_ms``."""
        original = self._original[self._repeats.identity[members]]
        known: Bools = original != _NONE
        rows = self._repeats.rows[np.where(known, original, 0)]
        ended = known & (self._clock[rows] <= late_before_ms)  # the sessions of the other rows cannot be over
        if ended.any():
            known[ended] = self._still_open(rows[ended], late_before_ms)
        return known

    def _still_open(self, rows: Int64s, late_before_ms: int) -> Bools:
        """Return for each of ``rows`` whether its session is due after ``late_before_ms``.

        Only events up to that instant are read, because later ones cannot change a session that is final by then.
        """
        in_question = np.zeros(int(self._key.max()) + 1, np.bool_)
        in_question[self._key[rows]] = True
        seen = in_question[self._key] & (self._clock <= late_before_ms) & self._verdicts.kept
        order = self._order[seen[self._order]]
        caps = CapsOfRows.of(self._admissions.caps, self._admissions.terms[order])
        cuts = cut_sessions(order_events(self._table, self._key, order, caps, self._size))
        is_open = np.zeros(len(seen), np.bool_)
        is_open[order] = np.repeat(cuts.due > late_before_ms, cuts.length)
        still_open: Bools = is_open[rows]
        return still_open

    @cached_property
    def _size(self) -> Int64s | None:
        return sizes_that_count(self._table, self._admissions.caps)

    @cached_property
    def _order(self) -> Int64s:
        return session_order(self._table, self._key)


_WORD: Final = 8
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: an odd number whose bits are spread."""


def surely_distinct(texts: pa.Array) -> bool:
    """Whether all strings of ``texts``, which has no nulls, are proven to differ. False proves nothing.

    Strings of one length, at least eight bytes, are digested to 64 bits. If two digests differ, the strings differ.
    """
    rows, widths = len(texts), np.diff(_offsets(texts))
    width = int(widths[0]) if rows and (widths == widths[0]).all() else 0
    if not rows or width < _WORD:
        return rows < 2  # noqa: PLR2004  one string has nothing to repeat
    data, digest = texts.buffers()[2], np.zeros(rows, np.uint64)
    begin = int(_offsets(texts)[0])
    for word in [*range(0, width - _WORD, _WORD), width - _WORD]:
        words: NDArray[np.uint64] = np.ndarray((rows,), "<u8", data, offset=begin + word, strides=(width,))
        digest = (digest ^ words) * _FACTOR
        digest ^= digest >> np.uint64(32)
    digest.sort()
    return bool((digest[1:] != digest[:-1]).all())


def _offsets(texts: pa.Array) -> NDArray[np.integer]:
    wide = pa.types.is_large_string(texts.type)
    offsets: NDArray[np.integer] = np.frombuffer(texts.buffers()[1], np.int64 if wide else np.int32)
    return offsets[texts.offset : texts.offset + len(texts) + 1]
