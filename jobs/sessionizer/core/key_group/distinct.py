"""A quick proof that no string of a column repeats, for those that have one, as ids made by machines do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD: Final = 8
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
"""Odd, its bits spread: 2^64 divided by the golden ratio."""


def surely_distinct(texts: pa.Array) -> bool:
    """Whether the strings of ``texts``, which has no nulls, are proven to differ; False proves nothing.

    Strings of one length, eight bytes at least, are digested to 64 bits: what differs then, differed before.
    """
    rows, width = len(texts), _common_width(texts)
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


def _common_width(texts: pa.Array) -> int:
    """The length of each string in bytes, 0 if they differ."""
    widths = np.diff(_offsets(texts))
    return int(widths[0]) if len(widths) and (widths == widths[0]).all() else 0


def _offsets(texts: pa.Array) -> NDArray[np.integer]:
    wide = pa.types.is_large_string(texts.type)
    offsets: NDArray[np.integer] = np.frombuffer(texts.buffers()[1], np.int64 if wide else np.int32)
    return offsets[texts.offset : texts.offset + len(texts) + 1]
