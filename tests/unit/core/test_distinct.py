"""A proof that no string repeats is never wrong, and is found where it matters."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.key_group.distinct import surely_distinct

texts = st.lists(st.text(alphabet="aé0", min_size=0, max_size=12), max_size=20)
of_one_length = st.lists(st.text(alphabet="ab", min_size=9, max_size=9), max_size=20)


@settings(deadline=None)
@given(st.one_of(texts, of_one_length), st.integers(0, 3))
def test_what_repeats_is_never_called_distinct(values: list[str], skipped: int) -> None:
    column = pa.array(values, pa.string()).slice(skipped)
    if surely_distinct(column):
        assert len(set(column.to_pylist())) == len(column)


@pytest.mark.parametrize("width", [8, 9, 16, 32, 36])
def test_ids_of_one_length_are_proven_distinct_until_one_repeats(width: int) -> None:
    ids = [str(uuid.UUID(int=number * 2**64 + number)).rjust(40, "0")[-width:] for number in range(10_000)]
    column = pa.array(ids, pa.string())
    assert surely_distinct(column)
    assert surely_distinct(column.slice(4_000, 5_000))
    assert not surely_distinct(pa.array([*ids, ids[17]], pa.string()))


@pytest.mark.parametrize("values", [[], ["a"], ["same length"]])
def test_less_than_two_are_distinct(values: list[str]) -> None:
    assert surely_distinct(pa.array(values, pa.string()))


@pytest.mark.parametrize("values", [["short", "other"], ["of this length", "of another"]])
def test_short_strings_and_strings_of_several_lengths_are_not_judged(values: list[str]) -> None:
    assert not surely_distinct(pa.array(values, pa.string()))
