"""The search for duplicate events (docs/sessions.md, 5) when a group is merged.

Rows wait undecided in the group's log, each with the threshold of its batch, so that the verdict does not depend on
the time of the merge. An event is compared with the admitted event of its key and id if the session of the admitted
event was still open when the event came. Ids repeat rarely, so each step first proves that there is nothing to do.
If ids repeat, a whole segment may have been sent again. Batches are then decided one by one, all rows of a batch at
once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from sessionizer.core.key_group.cutting import Bools, Int64s, cut_sessions
from sessionizer.core.key_group.ordering import CapsOfRows, codes, int64s, order_events, session_order
from sessionizer.core.key_group.repeats import Repeats
from sessionizer.core.wire import schema
from sessionizer.core.wire.event_size import sizes_that_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from sessionizer.core.definition.rules import Caps

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
    rows, identity = _rows_with_repeats(key, event_id, distinct)
    if len(rows):
        repeats = Repeats.find(table, rows, identity, admissions.terms[rows], admissions.columns)
        _Deciding(table, key, repeats, admissions, verdicts).decide()
    return verdicts


def _rows_with_repeats(key: Int64s, event_id: Int64s, distinct: int) -> tuple[Int64s, Int64s]:
    """Return the positions of all rows whose key has their id twice, and for each a number for key and id."""
    suspects = np.flatnonzero(np.bincount(event_id, minlength=distinct)[event_id] > 1)
    _, identity, count = np.unique(
        key[suspects] * distinct + event_id[suspects], return_inverse=True, return_counts=True
    )
    repeats = count[identity] > 1
    return suspects[repeats], identity[repeats].astype(np.int64)


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
