"""Consistency of a state with its tables, which a driver checks before it writes: pure.

A table takes each batch of a lineage once and none that is lower than one it has. So a state that is older than its
tables would make batches that the tables skip, and their sessions would be lost. ADR 0123.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.errors import DataAway, RowsMissing, StateBehindTables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.errors import SessionizerError

_LINEAGE: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
"""An id of ours: other programs may append by names of their own."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state that a driver would resume from.

    ``begun``: the newest batch whose input is settled. It may run again, with the same rows. ``committed``: the newest
    that is over. ``known``: every lineage that this home knows, or that a user accepted.
    """

    stream: str
    lineage: str
    begun: int | None
    committed: int | None
    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as found, and the records about it.

    ``batches``: the newest of each lineage, None where there is no table. ``written``: the newest batch of each lineage
    that noted rows for it.
    """

    name: str
    location: str
    batches: Mapping[str, int] | None
    written: Mapping[str, int]


def find_inconsistency(state: StreamState, table: TableState) -> SessionizerError | None:
    """Return the reason why the lineage of ``state`` cannot go on with ``table``, None if it can."""
    if table.batches is None:
        return DataAway(state.stream, f"the table {table.name}", table.location) if table.written else None
    newest, begun = table.batches.get(state.lineage, -1), -1 if state.begun is None else state.begun
    if newest > begun:
        return StateBehindTables(state.stream, table.location, state.lineage, newest, begun)
    return _missing_rows(state, table, table.batches)


def unknown_lineages(state: StreamState, table: TableState) -> list[str]:
    """Return the lineages that wrote ``table`` after the one of ``state`` began, and that this home does not know.

    Older ones are of a stream that had the table before a user changed its owner.
    """
    found = sorted(table.batches or ())
    return [name for name in found if _LINEAGE.fullmatch(name) and name > state.lineage and name not in state.known]


def _missing_rows(state: StreamState, table: TableState, batches: Mapping[str, int]) -> RowsMissing | None:
    for lineage, batch in table.written.items():
        # the batch that is not over is run again
        is_over = lineage != state.lineage or (state.committed is not None and batch <= state.committed)
        if is_over and batches.get(lineage, -1) < batch:
            return RowsMissing(state.stream, table.location, lineage, batch, batches.get(lineage))
    return None
