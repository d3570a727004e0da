"""Comparison of the rows that recorded batches wrote with the rows that their replay wrote, in Arrow.

Rows are paired by their key. Rows of one key are paired in the order of their other values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS
from sessionizer.state.proof.samples import DifferenceSample, Sampler, differing_rows

if TYPE_CHECKING:
    Indices: TypeAlias = NDArray[np.int64]

SAMPLES: Final = 10
"""Rows of each kind of difference that are shown."""


class DifferenceKind(StrEnum):
    """Kind of a difference between a recorded row and its replay."""

    ONLY_OLD = "only_old"
    ONLY_NEW = "only_new"
    COLUMNS = "columns_differ"


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """Rows of the Delta table ``stored_in``: their key, and the columns that no replay can repeat.

    ``wall_clock``: columns that say when a row was written.
    """

    name: str
    stored_in: str
    key: tuple[str, ...]
    wall_clock: tuple[str, ...]

    @property
    def excluded(self) -> tuple[str, ...]:
        """Columns that are not compared. The lineage of a replay is a copy, so its name says nothing."""
        return (*self.wall_clock, "lineage")


TABLES: Final = (
    ComparedTable(SESSIONS, SESSIONS, ("session_id",), ("emitted_at",)),
    ComparedTable(LATE_EVENTS, LATE_EVENTS, ("event_id", "event_time"), ("noticed_at",)),
    ComparedTable(QUARANTINE, QUARANTINE, ("source_position", "raw"), ("quarantined_at", "date")),
    ComparedTable("conflicting_duplicates", QUARANTINE, ("key", "clock", "event_id"), ("quarantined_at", "date")),
)
"""The compared tables. A conflicting duplicate is compared by the fields of its event, which ``raw`` holds as JSON."""


@dataclass(frozen=True, slots=True)
class RowDifference:
    """Number of ``rows`` that differ in one way. ``columns``: those with other values, such as ``events.page``."""

    kind: DifferenceKind
    columns: tuple[str, ...]
    rows: int
    samples: tuple[DifferenceSample, ...] = ()


@dataclass(frozen=True, slots=True)
class TableComparison:
    """Rows of a table, old and new, the number that are identical, and the differences."""

    old: int = 0
    new: int = 0
    identical: int = 0
    differences: tuple[RowDifference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON, which ``comparison_from_json`` reads back."""
        return asdict(self)


def comparison_from_json(value: Mapping[str, Any]) -> TableComparison:
    """Read a comparison. Raises KeyError, TypeError, ValueError."""
    differences = tuple(
        RowDifference(
            DifferenceKind(each["kind"]),
            tuple(each["columns"]),
            each["rows"],
            tuple(DifferenceSample(sample["key"], sample["old"], sample["new"]) for sample in each["samples"]),
        )
        for each in value["differences"]
    )
    return TableComparison(value["old"], value["new"], value["identical"], differences)


def compare_rows(old: pa.Table, new: pa.Table, table: ComparedTable, samples: int = SAMPLES) -> TableComparison:
    """Compare the rows of two Arrow tables. A column that one of them lacks is null there."""
    names = [name for name in dict.fromkeys((*old.column_names, *new.column_names)) if name not in table.excluded]
    old, new = (_select_columns(each, names) for each in (old, new))
    old_ids, new_ids = _row_ids(old, new, table.key)
    _, in_old, in_new = np.intersect1d(old_ids, new_ids, assume_unique=True, return_indices=True)
    lone_old = np.setdiff1d(np.arange(len(old_ids)), in_old, assume_unique=True)
    lone_new = np.setdiff1d(np.arange(len(new_ids)), in_new, assume_unique=True)
    sampler = Sampler(table.key, names, samples)
    changed = _changed_pairs(old.take(pa.array(in_old)), new.take(pa.array(in_new)), sampler)
    found = [
        _lone_rows(DifferenceKind.ONLY_OLD, old, lone_old, sampler),
        _lone_rows(DifferenceKind.ONLY_NEW, new, lone_new, sampler),
        *changed,
    ]
    differences = tuple(each for each in found if each.rows)
    identical = len(in_old) - sum(each.rows for each in changed)
    return TableComparison(len(old_ids), len(new_ids), identical, differences)


def merge_comparisons(parts: Iterable[TableComparison], samples: int = SAMPLES) -> TableComparison:
    """Add up comparisons of parts of a table, each of which holds all rows of its keys."""
    whole = TableComparison()
    found: dict[tuple[DifferenceKind, tuple[str, ...]], RowDifference] = {}
    for part in parts:
        whole = TableComparison(whole.old + part.old, whole.new + part.new, whole.identical + part.identical)
        for each in part.differences:
            before = found.get((each.kind, each.columns), replace(each, rows=0, samples=()))
            shown = (*before.samples, *each.samples)[:samples]
            found[each.kind, each.columns] = replace(each, rows=before.rows + each.rows, samples=shown)
    ordered = sorted(found.values(), key=lambda each: (list(DifferenceKind).index(each.kind), each.columns))
    return replace(whole, differences=tuple(ordered))


def _select_columns(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    columns = [rows.column(name) if name in rows.column_names else pa.nulls(rows.num_rows) for name in names]
    return pa.Table.from_arrays(columns, names=list(names))


def _row_ids(old: pa.Table, new: pa.Table, key: Sequence[str]) -> tuple[Indices, Indices]:
    """Number the rows of both tables: rows that are to be paired get the same number, no two of a table do."""
    codes = np.zeros(old.num_rows + new.num_rows, np.int64)
    for name in key:
        both = pa.chunked_array([*_chunks(old, name), *_chunks(new, name)])
        of_column = both.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        codes = np.unique(codes * (len(codes) + 1) + of_column, return_inverse=True)[1]
    sides = codes[: old.num_rows], codes[old.num_rows :]
    numbers = [_occurrences(rows, side) for rows, side in zip((old, new), sides, strict=True)]
    most = max((int(each.max(initial=0)) for each in numbers), default=0) + 1
    return sides[0] * most + numbers[0], sides[1] * most + numbers[1]


def _chunks(rows: pa.Table, name: str) -> list[Any]:
    column = rows.column(name)
    return [chunk.cast(pa.string()) if not pa.types.is_string(chunk.type) else chunk for chunk in column.chunks]


def _occurrences(rows: pa.Table, codes: Indices) -> Indices:
    """Number the rows of each code from 0 on, in the order of the rows' values."""
    numbers = np.zeros(len(codes), np.int64)
    if np.bincount(codes).max(initial=0) <= 1:
        return numbers
    plain = [name for name in rows.column_names if not pa.types.is_nested(rows.column(name).type)]
    sortable = pa.table({"code": codes, **{f"_{name}": rows.column(name) for name in plain}})
    keys = [(name, "ascending") for name in sortable.column_names if not pa.types.is_null(sortable[name].type)]
    order = pc.sort_indices(sortable, sort_keys=keys).to_numpy()
    ordered = codes[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[begins, len(ordered)])
    numbers[order] = np.arange(len(ordered)) - np.repeat(begins, lengths)
    return numbers


def _changed_pairs(old: pa.Table, new: pa.Table, sampler: Sampler) -> list[RowDifference]:
    """Group the pairs that differ by the columns in which they differ."""
    marks: dict[str, Any] = {}
    for name in old.column_names:
        marks |= differing_rows(name, old.column(name), new.column(name))
    if not marks:
        return []
    paths, matrix = sorted(marks), np.column_stack([marks[path] for path in sorted(marks)])
    rows = np.flatnonzero(matrix.any(axis=1))
    ways, which = np.unique(matrix[rows], axis=0, return_inverse=True)
    found = []
    for number, way in enumerate(ways):
        columns = tuple(path for path, differs in zip(paths, way, strict=True) if differs)
        members = rows[which.reshape(-1) == number]
        found.append(
            RowDifference(DifferenceKind.COLUMNS, columns, len(members), sampler.pairs(old, new, members, columns))
        )
    return found


def _lone_rows(kind: DifferenceKind, rows: pa.Table, members: Indices, sampler: Sampler) -> RowDifference:
    return RowDifference(kind, (), len(members), sampler.lone(rows, members, is_old=kind is DifferenceKind.ONLY_OLD))
