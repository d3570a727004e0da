"""Bytes as seven-bit text: ASCII, an eighth longer, and the same bytes again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.wire.seven_bits import from_text, to_text


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_text_gives_back_its_bytes(data: bytes) -> None:
    text = to_text(data)
    assert text.isascii()
    assert from_text(text) == data


@pytest.mark.parametrize("data", [b"", b"\0", b"\1", b"\0" * 7, b"\1\0\0", b"\xff" * 8, bytes(range(256)) * 40])
def test_zeros_at_the_end_and_whole_words_survive(data: bytes) -> None:
    assert from_text(to_text(data)) == data


def test_text_is_an_eighth_longer() -> None:
    assert len(to_text(b"x" * 6_999)) == 8_000


def test_the_encoding_is_that_of_streams_that_run() -> None:
    """Bit by bit from the lowest: a state that was written before must be readable."""
    assert to_text(b"\x80\x01") == "\x00\x03\x04\x00\x00\x00\x00\x00"
    assert from_text("\x00\x03\x04\x00\x00\x00\x00\x00") == b"\x80\x01"
