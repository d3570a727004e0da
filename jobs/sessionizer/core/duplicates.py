"""Which events have been seen before: design §3 point 3, decided when a group is merged.

Rows wait undecided in the group's log, each under the threshold its batch was admitted after, so the verdict does not
depend on when the merge happens. An event is compared with the admitted event of its key and id as long as that one's
session was still open when the event came. Ids repeat rarely: everything here first proves that there is nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sessionizer.core import schema
from sessionizer.core.cutting import Bools, Int64s, OrderedEvents, cut_sessions
from sessionizer.core.distinct import surely_distinct
from sessionizer.core.ordering import codes, int64s, ordered_events, session_order, whole_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.core.rules import Rules


@dataclass(frozen=True, slots=True)
class Admissions:
    """When each row came: ``turn`` counts batches, ``late_before`` is their threshold (epoch ms)."""

    turn: Int64s
    late_before: Int64s


@dataclass(slots=True)
class Verdicts:
    """What becomes of each row: kept, or ``repeated`` (same body), or ``conflicting`` (another body)."""

    repeated: Bools
    conflicting: Bools

    @classmethod
    def all_kept(cls, rows: int) -> Verdicts:
        """Nothing repeats."""
        return cls(np.zeros(rows, np.bool_), np.zeros(rows, np.bool_))

    @property
    def kept(self) -> Bools:
        """Rows that belong to sessions."""
        return ~(self.repeated | self.conflicting)


def find_duplicates(table: pa.Table, key: Int64s, admissions: Admissions, rules: Rules) -> Verdicts:
    """Decide on every row of a group's events."""
    verdicts = Verdicts.all_kept(table.num_rows)
    if surely_distinct(whole_column(table, schema.EVENT_ID)):
        return verdicts
    event_id, distinct = codes(table, schema.EVENT_ID)
    if distinct == table.num_rows:
        return verdicts
    suspects = np.flatnonzero(np.bincount(event_id, minlength=distinct)[event_id] > 1)
    for rows in _rows_of_keys_with_repeats(suspects, key, event_id):
        _KeyInQuestion(table, rows, event_id[rows], admissions, rules).decide(verdicts)
    return verdicts


def _rows_of_keys_with_repeats(suspects: Int64s, key: Int64s, event_id: Int64s) -> Iterator[Int64s]:
    """For each key that has one id twice, the positions of all its rows."""
    pairs = np.sort(key[suspects] * (event_id.max() + 1) + event_id[suspects])
    repeated = pairs[1:][pairs[1:] == pairs[:-1]]
    keys = np.unique(repeated // (event_id.max() + 1))
    if not len(keys):
        return
    rows = np.flatnonzero(np.isin(key, keys))
    rows = rows[np.argsort(key[rows], kind="stable")]
    yield from np.split(rows, np.flatnonzero(np.diff(key[rows])) + 1)


class _KeyInQuestion:
    """The rows of one key, gone through in the order they were admitted."""

    def __init__(self, table: pa.Table, rows: Int64s, event_id: Int64s, admissions: Admissions, rules: Rules) -> None:
        self._rows, self._event_id, self._rules = rows, event_id, rules
        self._table = table.take(pa.array(rows))
        self._turn, self._late_before = admissions.turn[rows], admissions.late_before[rows]
        self._clock = int64s(self._table, schema.CLOCK)
        self._order = session_order(self._table, np.zeros(len(rows), np.int64))
        self._ordered: OrderedEvents = ordered_events(self._table, np.zeros(len(rows), np.int64), self._order)
        self._kept = np.ones(len(rows), np.bool_)

    def decide(self, verdicts: Verdicts) -> None:
        first_with_id: dict[int, int] = {}
        repeats = np.bincount(self._event_id) > 1
        for row in self._arrival_order(repeats):
            original = first_with_id.get(int(self._event_id[row]))
            if original is None or not self._still_open(original, int(self._late_before[row])):
                first_with_id[int(self._event_id[row])] = row
                continue
            self._kept[row] = False
            same = self._body(row) == self._body(original)
            (verdicts.repeated if same else verdicts.conflicting)[self._rows[row]] = True

    def _arrival_order(self, repeats: Bools) -> list[int]:
        """Rows whose id occurs twice: by batch, inside a batch by the oracle's canonical order."""
        rows = np.flatnonzero(repeats[self._event_id])
        return sorted(rows.tolist(), key=lambda row: (self._turn[row], *self._instant(row), *self._rest(row)))

    def _instant(self, row: int) -> tuple[Any, ...]:
        tie = self._table.column(schema.TIE)[row].as_py() if schema.TIE in self._table.column_names else 0
        closes = self._table.column(schema.CLOSES)[row].as_py()
        return int(self._clock[row]), tie, closes, self._table.column(schema.EVENT_ID)[row].as_py()

    def _rest(self, row: int) -> list[tuple[Any, ...]]:
        """What tells rows of one instant and id apart: client, payload, timeout; nulls first."""
        names = [name for name in self._table.column_names if name.startswith(schema.PAYLOAD)]
        values = [self._table.column(name)[row].as_py() for name in (schema.CLIENT, *names, schema.TIMEOUT)]
        return [_orderable(value) for value in values]

    def _body(self, row: int) -> str:
        """What has to agree for two events of one id to be the same event; as text, so that NaN equals itself."""
        columns = [name for name in self._table.column_names if name not in (schema.KEY, schema.TIMEOUT)]
        if schema.TIE in columns:
            columns.remove(schema.CLOCK)  # the arrival, not a property of the event
        return repr([self._table.column(name)[row].as_py() for name in columns])

    def _still_open(self, original: int, late_before_ms: int) -> bool:
        """Whether the session of ``original`` could still change after ``late_before_ms``.

        Only rows up to that instant matter: later ones cannot touch a session that is final by then.
        """
        if self._clock[original] > late_before_ms:
            return True
        seen = (self._clock[self._order] <= late_before_ms) & self._kept[self._order]
        cuts = cut_sessions(self._ordered.part(seen), self._rules)
        position = int(np.flatnonzero(self._order[seen] == original)[0])
        session = int(np.searchsorted(cuts.first, position, side="right")) - 1
        return bool(cuts.due[session] > late_before_ms)


def _orderable(value: object) -> tuple[object, ...]:
    """A sort key within one column: nulls, then values, then what has no order of its own, by its text."""
    if value is None:
        return (0,)
    if isinstance(value, (dict, list)) or value != value:  # noqa: PLR0124  NaN
        return (2, repr(value))
    return (1, value)
