"""Whether arrays hold the same values to the bit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sessionizer.core.wire.alignment import is_identical

NAN = float("nan")
NESTED = pa.struct([("x", pa.list_(pa.float32()))])
MAP = pa.map_(pa.string(), pa.float64())


@pytest.mark.parametrize(
    ("kind", "values", "others"),
    [
        (pa.float64(), [NAN, None, 0.0], [[NAN, 1.0, 0.0], [1.0, None, 0.0], [NAN, NAN, 0.0], [NAN, None]]),
        (pa.float16(), [NAN], [[1.0]]),
        (NESTED, [{"x": [NAN, None]}, None], [[{"x": [NAN, 1.0]}, None], [{"x": [NAN]}, None], [None, None]]),
        (MAP, [[("a", NAN)], None], [[[("b", NAN)], None], [[("a", 1.0)], None], [[], None]]),
        (pa.string(), ["a", None], [["b", None], ["a", ""]]),
    ],
)
def test_nothing_but_the_same_values_is_identical(
    kind: pa.DataType, values: list[Any], others: list[list[Any]]
) -> None:
    array = pa.array(values, kind)
    assert is_identical(array, pa.array(values, kind))
    assert [other for other in others if is_identical(array, pa.array(other, kind))] == []


def test_values_of_other_types_are_not() -> None:
    assert not is_identical(pa.array([1], pa.int32()), pa.array([1], pa.int64()))
