"""Small numbers for the values of a column of any type, equal exactly if the values are.

No value becomes a Python object, because some have none, such as an instant in the year 10000. Null equals null, NaN
equals NaN, and minus zero equals zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

Codes = NDArray[np.int64]

_WIDTH = 8


def equality_codes(values: pa.Array) -> Codes:
    """Return a number for each value, the same for equal values. Null is 0."""
    return _codes(values, _code_by_appearance)


def order_codes(values: pa.Array) -> Codes:
    """Return ``equality_codes`` that are also in the order of the values.

    Nested values are compared part by part from the first on.
    """
    return _codes(values, _code_by_order)


def combine_codes(first: Codes, second: Codes) -> Codes:
    """Return a number for each pair, equal if both parts are, in the order of the first, then of the second."""
    pairs = first * (second.max(initial=0) + 1) + second
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)


def _codes(values: pa.Array, of_plain: Callable[[pa.Array], Codes]) -> Codes:
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_struct(kind):
        codes = _code_struct(values, of_plain)
    elif isinstance(kind, pa.ListType | pa.LargeListType | pa.MapType):
        codes = _code_lists(values, of_plain)
    else:
        codes = of_plain(_plain(values))
    return np.where(_valid(values), codes + 1, 0)


def _valid(values: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _plain(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0, values.type))  # minus zero becomes zero
    if pa.types.is_interval(values.type):
        return values.view(pa.binary(values.type.bit_width // _WIDTH))
    return values


def _code_by_appearance(values: pa.Array) -> Codes:
    codes: Codes = values.dictionary_encode().indices.fill_null(0).to_numpy().astype(np.int64)
    return codes


def _code_by_order(values: pa.Array) -> Codes:
    encoded = values.dictionary_encode()
    place = np.empty(len(encoded.dictionary), np.int64)
    place[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(place))
    return place[encoded.indices.fill_null(0).to_numpy()] if len(place) else np.zeros(len(values), np.int64)


def _code_struct(values: pa.StructArray, of_plain: Callable[[pa.Array], Codes]) -> Codes:
    codes = np.zeros(len(values), np.int64)
    parts = {field.name: part for field, part in zip(values.type, values.flatten(), strict=True)}
    for _, part in sorted(parts.items()):  # by name, as fields change places
        codes = combine_codes(codes, _codes(part, of_plain))
    return codes


def _code_lists(values: pa.Array, of_plain: Callable[[pa.Array], Codes]) -> Codes:
    """Return the codes of lists, each taken as the bytes of its elements' codes.

    A code is eight bytes, the highest first, so that lists sort in the order of their elements.
    """
    offsets = values.offsets.to_numpy().astype(np.int64)
    elements = _elements(values).slice(offsets[0], offsets[-1] - offsets[0])
    data = pa.py_buffer(_codes(elements, of_plain).astype(">i8").tobytes())
    ends = pa.py_buffer(((offsets - offsets[0]) * _WIDTH).tobytes())
    return of_plain(pa.Array.from_buffers(pa.large_binary(), len(values), [None, ends, data]))


def _elements(values: pa.Array) -> pa.Array:
    """Return the values of lists, or the entries of maps."""
    if isinstance(values, pa.MapArray):
        return pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
    return values.values
