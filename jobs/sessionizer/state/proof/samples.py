"""Samples of rows that differ: a few of each kind of difference, with their values as text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

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
