"""Comparison of the rows that recorded batches wrote with the rows that their replay wrote, in Arrow.

Rows are paired by their key. Rows of one key are paired in the order of their other values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS

if TYPE_CHECKING:
    Indices: TypeAlias = NDArray[np.int64]
    Rows: TypeAlias = NDArray[np.bool_]

EVENT: Final = "event"
"""Column with the event of a conflicting duplicate, as a map."""
SAMPLES: Final = 10
"""Rows of each kind of difference that are shown."""


class DifferenceKind(StrEnum):
    """Kind of a difference between a recorded row and its replay."""

    ONLY_OLD = "only_old"
    ONLY_NEW = "only_new"
    COLUMNS = "columns_differ"


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """Rows of the Delta table ``stored_in``, their key, and the columns that say when a row was written."""

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


def compare_rows(old: pa.Table, new: pa.Table, table: ComparedTable, samples: int = SAMPLES) -> TableComparison:
    """Compare the rows of two Arrow tables. A column that one of them lacks is null there."""
    names = [name for name in dict.fromkeys((*old.column_names, *new.column_names)) if name not in table.excluded]
    others = [name for name in names if name not in table.key]
    old, new = (
        pa.table({name: each[name] if name in each.column_names else pa.nulls(each.num_rows) for name in names})
        for each in (old, new)
    )
    old_ids, new_ids = _row_ids(old, new, table.key)
    _, in_old, in_new = np.intersect1d(old_ids, new_ids, assume_unique=True, return_indices=True)
    lone_old = np.setdiff1d(np.arange(len(old_ids)), in_old, assume_unique=True)
    lone_new = np.setdiff1d(np.arange(len(new_ids)), in_new, assume_unique=True)
    pairs = old.take(pa.array(in_old)), new.take(pa.array(in_new))
    changed = [
        RowDifference(DifferenceKind.COLUMNS, columns, len(rows), _samples(*pairs, rows[:samples], table.key, columns))
        for columns, rows in _changed_pairs(*pairs)
    ]
    shown_old = _samples(old, None, lone_old[:samples], table.key, others)
    shown_new = _samples(None, new, lone_new[:samples], table.key, others)
    found = [
        RowDifference(DifferenceKind.ONLY_OLD, (), len(lone_old), shown_old),
        RowDifference(DifferenceKind.ONLY_NEW, (), len(lone_new), shown_new),
        *changed,
    ]
    differences = tuple(each for each in found if each.rows)
    identical = len(in_old) - sum(each.rows for each in changed)
    return TableComparison(len(old_ids), len(new_ids), identical, differences)


def name_event_fields(rows: pa.Table) -> pa.Table:
    """Return ``rows`` with the events of conflicting duplicates as structs, which are compared field by field."""
    place = rows.schema.get_field_index(EVENT)
    if place < 0:
        return rows
    events = [dict(each or ()) for each in rows.column(place).to_pylist()]
    names = sorted({name for event in events for name in event})
    return rows.set_column(place, EVENT, pa.array(events, pa.struct([(name, pa.string()) for name in names])))


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


def _changed_pairs(old: pa.Table, new: pa.Table) -> Iterator[tuple[tuple[str, ...], Indices]]:
    """Group the pairs that differ by the columns in which they differ."""
    marks: dict[str, Rows] = {}
    for name in old.column_names:
        for path, differing in _differences(name, *(side.column(name).combine_chunks() for side in (old, new))):
            if differing.any():
                marks[path] = marks[path] | differing if path in marks else differing
    if not marks:
        return
    paths, matrix = sorted(marks), np.column_stack([marks[path] for path in sorted(marks)])
    rows = np.flatnonzero(matrix.any(axis=1))
    ways, which = np.unique(matrix[rows], axis=0, return_inverse=True)
    for number, way in enumerate(ways):
        columns = tuple(path for path, differs in zip(paths, way, strict=True) if differs)
        yield columns, rows[which.reshape(-1) == number]


_TEXT: Final = 200
"""Characters of a value in a sample."""


@dataclass(frozen=True, slots=True)
class DifferenceSample:
    """A row that differs: its ``key``, and the values that it has on each side, as text. None: the side lacks it."""

    key: Mapping[str, str | None]
    old: Mapping[str, str | None] | None
    new: Mapping[str, str | None] | None


def _samples(
    old: pa.Table | None, new: pa.Table | None, members: Indices, key: Sequence[str], columns: Sequence[str]
) -> tuple[DifferenceSample, ...]:
    sides = [None if side is None else side.take(pa.array(members)).to_pylist() for side in (old, new)]
    keyed = next(side for side in sides if side is not None)
    return tuple(
        DifferenceSample(_texts(row, key), *(None if side is None else _texts(side[number], columns) for side in sides))
        for number, row in enumerate(keyed)
    )


def _texts(row: Mapping[str, Any], paths: Sequence[str]) -> dict[str, str | None]:
    return {path: _text(_value_at(row, path.split("."))) for path in paths}


def _value_at(value: Any, path: Sequence[str]) -> Any:  # noqa: ANN401  a value of a row
    for number, name in enumerate(path):
        if isinstance(value, list):
            return [_value_at(each, path[number:]) for each in value]
        value = value.get(name) if value is not None else None
    return value


def _text(value: Any) -> str | None:  # noqa: ANN401  a value of a row
    if value is None:
        return None
    nested = isinstance(value, list | dict)
    text = json.dumps(value, default=str, ensure_ascii=False) if nested else str(value)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Rows]]:  # noqa: ANN401  Arrow arrays
    """Mark the rows in which columns differ, by path, such as ``events.page``. Two nulls or NaN are equal."""
    if pa.types.is_null(old.type) and not pa.types.is_null(new.type):
        old = pa.nulls(len(old), new.type)
    elif pa.types.is_null(new.type):
        new = pa.nulls(len(new), old.type)
    if pa.types.is_list(old.type) and pa.types.is_list(new.type):
        yield from _compare_lists(path, old, new)
    elif pa.types.is_struct(old.type) and pa.types.is_struct(new.type):
        yield from _compare_structs(path, old, new)
    elif pa.types.is_nested(old.type) or pa.types.is_nested(new.type):
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        yield path, np.fromiter((before != now for before, now in pairs), np.bool_, len(old))
    else:
        yield path, _compare_values(old, new)


def _compare_lists(path: str, old: Any, new: Any) -> Iterator[tuple[str, Rows]]:  # noqa: ANN401
    lengths = [_numpy(pc.fill_null(pc.list_value_length(each), -1)) for each in (old, new)]
    yield path, lengths[0] != lengths[1]
    alike = np.flatnonzero((lengths[0] == lengths[1]) & (lengths[0] > 0))
    kept = [each.take(pa.array(alike)) for each in (old, new)]
    owners = alike[_numpy(pc.list_parent_indices(kept[0]))]
    for inner, values in _differences(path, *(pc.list_flatten(each) for each in kept)):
        rows = np.zeros(len(old), np.bool_)
        rows[owners[values]] = True
        yield inner, rows


def _compare_structs(path: str, old: Any, new: Any) -> Iterator[tuple[str, Rows]]:  # noqa: ANN401
    yield path, _numpy(pc.xor(pc.is_null(old), pc.is_null(new)))
    names = dict.fromkeys(field.name for each in (old, new) for field in each.type)
    for name in names:
        yield from _differences(f"{path}.{name}", _field(old, name), _field(new, name))


def _field(column: Any, name: str) -> Any:  # noqa: ANN401
    """Return a field of a struct, all null if the struct lacks it."""
    return pc.struct_field(column, name) if column.type.get_field_index(name) >= 0 else pa.nulls(len(column))


def _compare_values(old: Any, new: Any) -> Any:  # noqa: ANN401  marks of rows
    if old.type != new.type:
        try:
            old = old.cast(new.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            old, new = old.cast(pa.string()), new.cast(pa.string())
    unequal = pc.fill_null(pc.not_equal(old, new), pa.scalar(value=False))
    if pa.types.is_floating(old.type):
        nans = [pc.fill_null(pc.is_nan(each), pa.scalar(value=False)) for each in (old, new)]
        unequal = pc.and_not(unequal, pc.and_(*nans))
    return _numpy(pc.or_(unequal, pc.xor(pc.is_null(old), pc.is_null(new))))


def _numpy(values: Any) -> Any:  # noqa: ANN401
    return values.to_numpy(zero_copy_only=False)
