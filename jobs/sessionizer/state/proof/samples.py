"""Samples of rows that differ: a few of each kind of difference, with their values as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    Indices: TypeAlias = NDArray[np.int64]

_TEXT: Final = 200
"""Characters of a value in a sample."""


@dataclass(frozen=True, slots=True)
class DifferenceSample:
    """A row that differs: its ``key``, and the values that it has on each side, as text. None: the side lacks it."""

    key: Mapping[str, str | None]
    old: Mapping[str, str | None] | None
    new: Mapping[str, str | None] | None


@dataclass(frozen=True, slots=True)
class Sampler:
    """Maker of samples: the first rows of each kind of difference, with their values as text."""

    key: tuple[str, ...]
    names: list[str]
    most: int

    def lone(self, rows: pa.Table, members: Indices, *, is_old: bool) -> tuple[DifferenceSample, ...]:
        """Show rows that only one side has, without the columns of the key. ``is_old``: the old side has them."""
        others = [name for name in self.names if name not in self.key]
        shown = [(self._texts(row, self.key), self._texts(row, others)) for row in self._rows(rows, members)]
        if is_old:
            return tuple(DifferenceSample(key, values, None) for key, values in shown)
        return tuple(DifferenceSample(key, None, values) for key, values in shown)

    def pairs(
        self, old: pa.Table, new: pa.Table, members: Indices, columns: Sequence[str]
    ) -> tuple[DifferenceSample, ...]:
        """Show rows that both sides have, with their values in ``columns``."""
        pairs = zip(self._rows(old, members), self._rows(new, members), strict=True)
        return tuple(
            DifferenceSample(self._texts(before, self.key), self._texts(before, columns), self._texts(now, columns))
            for before, now in pairs
        )

    def _rows(self, rows: pa.Table, members: Indices) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = rows.take(pa.array(members[: self.most])).to_pylist()
        return found

    def _texts(self, row: Mapping[str, Any], paths: Sequence[str]) -> dict[str, str | None]:
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


if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[np.bool_]


def differing_rows(name: str, old: Any, new: Any) -> dict[str, Rows]:  # noqa: ANN401  an Arrow array
    """Mark the rows in which two columns differ, by the path of the value, such as ``events.page``.

    Two nulls are equal, and so are two NaN. Values of two types are compared as the newer type, or as text.
    """
    found: dict[str, Rows] = {}
    for path, rows in _differences(name, _whole(old), _whole(new)):
        if rows.any():
            found[path] = found[path] | rows if path in found else rows
    return found


def _whole(column: Any) -> Any:  # noqa: ANN401  an Arrow array
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Rows]]:  # noqa: ANN401
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
        old, new = _unify_types(old, new)
    unequal = pc.fill_null(pc.not_equal(old, new), pa.scalar(value=False))
    if pa.types.is_floating(old.type):
        nans = [pc.fill_null(pc.is_nan(each), pa.scalar(value=False)) for each in (old, new)]
        unequal = pc.and_not(unequal, pc.and_(*nans))
    return _numpy(pc.or_(unequal, pc.xor(pc.is_null(old), pc.is_null(new))))


def _unify_types(old: Any, new: Any) -> tuple[Any, Any]:  # noqa: ANN401
    try:
        return old.cast(new.type), new
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return old.cast(pa.string()), new.cast(pa.string())


def _numpy(values: Any) -> Any:  # noqa: ANN401
    return values.to_numpy(zero_copy_only=False)
