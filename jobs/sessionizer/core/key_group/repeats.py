"""The rows of a group whose key has their id more than once, with their comparison and their canonical order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sessionizer.core.key_group.ordering import whole_column
from sessionizer.core.key_group.value_codes import combine_codes, equality_codes, order_codes
from sessionizer.core.wire import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.core.key_group.cutting import Bools, Int64s


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
        codes = [(equality_codes(whole_column(events, name)), _came_with(name, turn, columns)) for name in body]
        instants = [clock, events.column(time).to_numpy(), events.column(schema.CLOSES).to_numpy().astype(np.int64)]
        return cls(rows, identity, events, instants, codes)

    def differ(self, members: Int64s, others: Int64s) -> Bools:
        """Return which of ``members`` have another body than the member at the same place of ``others``.

        Only columns that both came with are compared. The timeout does not count.
        """
        other = np.zeros(len(members), np.bool_)
        for codes, came in self.body:
            differs = codes[members] != codes[others]
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
        rank = self._rank_of_body(order[disputed])
        run = np.cumsum(np.insert(~tied, 0, True))[disputed]
        order[disputed] = order[disputed][np.lexsort([timeout[order[disputed]], rank, run])]
        return order

    def _rank_of_body(self, members: Int64s) -> Int64s:
        """Return the rank of events of one instant and id: by client, then payload, nulls first."""
        events = self.events.take(pa.array(members))
        rank = np.zeros(len(members), np.int64)
        for name in (schema.CLIENT, *_payload(events)):
            rank = combine_codes(rank, order_codes(whole_column(events, name)))
        return rank


def _payload(table: pa.Table) -> list[str]:
    """Return the payload columns in the order of their names.

    Their order in the table does not count, because it depends on the time when tables of different columns were
    merged.
    """
    return sorted(name for name in table.column_names if name.startswith(schema.PAYLOAD))


def _came_with(name: str, turn: Int64s, columns: Sequence[frozenset[str]]) -> Bools | None:
    came = np.array([name in names for names in columns])
    return None if came.all() else came[turn]
