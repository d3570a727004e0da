"""Bytes as ASCII text, seven bits a character: eight characters for seven bytes.

What the state holds is text because Spark pickles it for Python: bytes one by one, through a Java string and its
encoding, ASCII in one copy (docs/adr/0040).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_BYTES: Final = 7
_END: Final = b"\1"
"""Stands behind the last byte; only zeros follow."""


class _Split(NamedTuple):
    """Each lane of a word holds two numbers of as many bits side by side: the ``upper`` moves up by ``gap`` bits."""

    lower: np.uint64
    upper: np.uint64
    gap: np.uint64

    @classmethod
    def into(cls, bits: int) -> _Split:
        """Numbers of ``bits`` bits: each gets a lane of its own, of which there are seven eighths in use."""
        gap = bits // _BYTES
        lower = sum(((1 << bits) - 1) << lane for lane in range(0, 64, 2 * (bits + gap)))
        return cls(np.uint64(lower), np.uint64(lower << bits), np.uint64(gap))


_SPLITS: Final = (_Split.into(28), _Split.into(14), _Split.into(7))
"""56 bits in a word of 64 to 28 in each half, 14 in each quarter, 7 in each byte."""


def to_text(data: bytes) -> str:
    """``data`` as ASCII characters."""
    ended = data + _END
    words = np.zeros((-(-len(ended) // _BYTES), 8), np.uint8)
    words[:, :_BYTES] = np.frombuffer(ended.ljust(len(words) * _BYTES, b"\0"), np.uint8).reshape(-1, _BYTES)
    spread = words.reshape(-1).view("<u8")
    upper = np.empty_like(spread)
    for split in _SPLITS:
        np.bitwise_and(spread, split.upper, out=upper)
        np.left_shift(upper, split.gap, out=upper)
        np.bitwise_and(spread, split.lower, out=spread)
        np.bitwise_or(spread, upper, out=spread)
    return spread.tobytes().decode("ascii")


def from_text(text: str) -> bytes:
    """The bytes that ``to_text`` made into ``text``."""
    words: Words = np.frombuffer(text.encode("ascii"), "<u8").copy()
    upper = np.empty_like(words)
    for split in reversed(_SPLITS):
        np.right_shift(words, split.gap, out=upper)
        np.bitwise_and(upper, split.upper, out=upper)
        np.bitwise_and(words, split.lower, out=words)
        np.bitwise_or(words, upper, out=words)
    packed = words.view(np.uint8).reshape(-1, 8)[:, :_BYTES].tobytes()
    return packed.rstrip(b"\0")[: -len(_END)]
