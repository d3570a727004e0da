"""Columns of text, generated as whole columns. Python never handles a single value."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEX: Final = np.array([list(f"{value:02x}".encode()) for value in range(256)], np.uint8)
_PAGES: Final = ("/", "/search", "/cart", "/checkout", "/account/orders", "/product/{0}", "/category/{0}/page/{1}")
_CAMPAIGNS: Final = ("newsletter", "autumn-sale", "partner-site", "retargeting", "search-ads")
_TEMPLATES: Final = 20_000


def hexadecimal(rng: np.random.Generator, count: int, digits: int) -> pa.StringArray:
    """Return ``count`` random texts of ``digits`` (even) hex digits."""
    octets = np.frombuffer(rng.bytes(count * digits // 2), np.uint8).reshape(count, digits // 2)
    return _build_texts(_HEX[octets].reshape(count, digits))


def numbered(letter: str, numbers: NDArray[np.int64], digits: int = 8) -> pa.StringArray:
    """Return texts of ``letter`` and each number with leading zeros."""
    text = np.empty((len(numbers), digits + 1), np.uint8)
    text[:, 0] = ord(letter)
    for place in range(digits):
        text[:, digits - place] = ord("0") + numbers // 10**place % 10
    return _build_texts(text)


def _build_texts(text: NDArray[np.uint8]) -> pa.StringArray:
    """Return rows of ASCII codes, all of one width, as texts."""
    count, width = text.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    buffers = [pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text))]
    return pa.StringArray.from_buffers(count, *buffers)


def requests(rng: np.random.Generator, count: int) -> pa.StringArray:
    """Return texts of 40 to 80 bytes like those of page views: a few popular pages, and a part that never repeats."""
    popular = (_TEMPLATES * rng.random(count) ** 3).astype(np.int32)
    return pc.binary_join_element_wise(_templates().take(pa.array(popular)), hexadecimal(rng, count, 8), "&view=")


@cache
def _templates() -> pa.StringArray:
    rng = np.random.default_rng(_TEMPLATES)
    return pa.array([_request(rng) for _ in range(_TEMPLATES)])


def _request(rng: np.random.Generator) -> str:
    page = _PAGES[rng.integers(len(_PAGES))].format(rng.integers(100_000), rng.integers(50))
    return f"{page}?lang=en&from={_CAMPAIGNS[rng.integers(len(_CAMPAIGNS))]}&screen={rng.integers(320, 2560)}"
