"""Values as numbers: equal and in order exactly as the values are, of any type, without a Python object of any."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations

import pyarrow as pa
import pytest

from sessionizer.core.key_group.cutting import combine_codes, equality_codes, order_codes

NAN = float("nan")
YEAR_287000_US = 9 * 10**18

ASCENDING = {
    "int": pa.array([None, -1, 2**62]),
    "text": pa.array([None, "", "a", "aé", "b"]),
    "large text": pa.array([None, "", "a", "b"], pa.large_string()),
    "bytes": pa.array([None, b"", b"\x00", b"\xff"]),
    "number": pa.array([None, -1.5, 0.0, 2.0, float("inf"), NAN]),
    "boolean": pa.array([None, False, True]),
    "decimal": pa.array([None, Decimal("-1.10"), Decimal("1.10")]),
    "instant": pa.array([None, -YEAR_287000_US, 0, YEAR_287000_US]).cast(pa.timestamp("us", "UTC")),
    "local time": pa.array([None, -YEAR_287000_US, YEAR_287000_US]).cast(pa.timestamp("us")),
    "day": pa.array([None, -(2**31), 2**31 - 1], pa.int32()).cast(pa.date32()),
    "interval": pa.array([None, -1, 2**62]).cast(pa.duration("us")),
    "list": pa.array([None, [], [None], [1], [1, 1], [2]]),
    "list of lists": pa.array([None, [], [[]], [[1]], [[1], []]]),
    "struct": pa.array([None, {"a": None, "b": "x"}, {"a": 1, "b": None}, {"a": 1, "b": "x"}]),
    "map": pa.array([None, [], [("k", None)], [("k", 1)], [("l", 0)]], pa.map_(pa.string(), pa.int64())),
    "nested": pa.array([None, [], [None], [{"a": [1.0]}], [{"a": [NAN]}]]),
    "nothing": pa.nulls(1),
}


@pytest.mark.parametrize("kind", ASCENDING)
def test_codes_tell_values_apart_as_the_values_do(kind: str) -> None:
    once = ASCENDING[kind]
    twice = pa.concat_arrays([once, once])
    for codes in (equality_codes(twice), order_codes(twice)):
        first, again = codes[: len(once)], codes[len(once) :]
        assert first.tolist() == again.tolist(), "the same value has the same code"
        assert len(set(first.tolist())) == len(once), "another value has another"
    assert all(earlier < later for earlier, later in combinations(order_codes(once).tolist(), 2))


@pytest.mark.parametrize("kind", ASCENDING)
def test_a_slice_has_the_codes_of_its_values(kind: str) -> None:
    whole = pa.concat_arrays([ASCENDING[kind]] * 2)
    part = whole.slice(1, len(ASCENDING[kind]))
    assert len(set(equality_codes(part).tolist())) == len(part)
    assert equality_codes(whole.slice(0, 0)).tolist() == []


def test_minus_zero_is_zero_in_lists_too() -> None:
    assert len(set(equality_codes(pa.array([0.0, -0.0])).tolist())) == 1
    assert len(set(order_codes(pa.array([[0.0], [-0.0]])).tolist())) == 1


def test_two_codes_make_one_in_the_order_of_the_first_then_of_the_second() -> None:
    first, second = equality_codes(pa.array([1, 1, 2, 1])), equality_codes(pa.array([1, 2, 1, 1]))
    assert combine_codes(first, second).tolist() == [0, 1, 2, 0]
