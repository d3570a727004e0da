"""Values of every type a payload can keep, as plain Python, as compared text and as JSON."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sessionizer.core.definition.plain_values import format_value, order_of, plain_values
from sessionizer.core.wire.event_size import json_objects

FAR_US = 2**62
NAN = float("nan")
INSTANT = pa.timestamp("us", tz="UTC")
COUNTED = pa.struct([("a", pa.int8()), ("at", pa.int64())])
STRUCT = pa.struct([("a", pa.int8()), ("at", pa.timestamp("us"))])
CASES: dict[str, tuple[pa.Array, list[Any], list[Any]]] = {
    "instants no calendar of Python has": (
        pa.array([253_402_300_800_000_000, -62_167_219_200_000_001, 0, None]).cast(INSTANT),
        [253_402_300_800_000_000, -62_167_219_200_000_001, 0, None],
        ["10000-01-01T00:00:00.000000Z", "-001-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z", ...],
    ),
    "days": (
        pa.array([2_932_897, -719_529], pa.int32()).cast(pa.date32()),
        [2_932_897, -719_529],
        ["10000-01-01", "-001-12-31"],
    ),
    "times": (pa.array([3_600_000_001]).cast(pa.time64("us")), [3_600_000_001], ["01:00:00.000001"]),
    "decimals": (pa.array([Decimal("1.50")], pa.decimal128(38, 2)), [Decimal("1.50")], ["1.50"]),
    "doubles": (pa.array([-0.0, float("inf"), 1.5]), [-0.0, float("inf"), 1.5], [-0.0, "Infinity", 1.5]),
    "bytes": (pa.array([b"\xff\x00"]), [b"\xff\x00"], ["/wA="]),
    "structs": (
        pa.array([{"a": 1, "at": FAR_US}, None, {"a": None, "at": None}], COUNTED).cast(STRUCT),
        [{"a": 1, "at": FAR_US}, None, {"a": None, "at": None}],
        [{"a": 1, "at": "148108-07-06T14:00:27.387904"}, ..., {}],
    ),
    "maps": (
        pa.array([[("k", 1), ("l", None)], [], None], pa.map_(pa.string(), pa.int64())),
        [[("k", 1), ("l", None)], [], None],
        [{"k": 1, "l": None}, {}, ...],
    ),
    "lists": (pa.array([[1, None], [], None]), [[1, None], [], None], [[1, None], [], ...]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_value_of_any_type_is_plain_python_and_json(case: tuple[pa.Array, list[Any], list[Any]]) -> None:
    values, plain, as_json = case
    shifted = pa.concat_arrays([pa.nulls(2, values.type), values])[2:]
    for column in (values, shifted, pa.chunked_array([values])):
        assert repr(plain_values(column)) == repr(plain)
    found = [json.loads(text).get("c", ...) for text in json_objects(pa.table({"c": values}))]
    assert repr(found) == repr(as_json)


def test_nan_is_itself_in_text_and_json() -> None:
    values = pa.array([[("k", NAN)]], pa.map_(pa.string(), pa.float64()))
    assert [format_value(value) for value in plain_values(values)] == ["[['k', nan]]"]
    assert json_objects(pa.table({"c": values})) == ['{"c": {"k": "NaN"}}']


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NAN, float("nan")),
        ({"a": 1, "b": None}, {"a": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Decimal("1.5"), Decimal("1.5000")),
        (Decimal(100), Decimal("100.00")),
        ([1, 2], (1, 2)),
        (0.0, -0.0),
    ],
)
def test_some_values_that_look_different_are_the_same(one: object, other: object) -> None:
    assert format_value(one) == format_value(other)


@pytest.mark.parametrize(("one", "other"), [(None, "None"), (1, "1"), (b"a", "a"), ([1], [1, None])])
def test_others_are_not(one: object, other: object) -> None:
    assert format_value(one) != format_value(other)


def test_nulls_come_before_values_and_values_before_nan() -> None:
    assert sorted([NAN, 2.0, None, -1.0], key=order_of)[:3] == [None, -1.0, 2.0]
    structs = [{"b": 1, "a": 2}, None, {"a": 2, "b": None}, {"a": 1, "b": 3}]
    assert sorted(structs, key=order_of) == [None, structs[3], structs[2], structs[0]]
    assert sorted([[1, 2], [1], [None, 5]], key=order_of) == [[None, 5], [1], [1, 2]]
