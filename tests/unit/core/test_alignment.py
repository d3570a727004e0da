"""Columns by name: what goes into what, and that no value changes on the way."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sessionizer.core.wire.alignment import Unfit, align_table, align_values, unfit, unite_schemas

INNER = pa.struct([("x", pa.int32()), ("m", pa.map_(pa.string(), pa.int8()))])
OUTER = pa.list_(INNER)
LATER = pa.list_(pa.struct([("n", pa.string()), ("m", pa.map_(pa.string(), pa.int64())), ("x", pa.int64())]))
VALUES = [[{"x": 1, "m": [("k", 1)]}], None, [], [None, {"x": 2, "m": None}]]
ALIGNED = [[{"n": None, "m": [("k", 1)], "x": 1}], None, [], [None, {"n": None, "m": None, "x": 2}]]

WIDER = [
    (pa.int8(), pa.int16()),
    (pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal128(7, 4)),
    (OUTER, LATER),
]
NEVER = [
    (pa.int64(), pa.float64()),
    (pa.int32(), pa.float32()),
    (pa.string(), pa.binary()),
    (pa.date32(), pa.timestamp("us", tz="UTC")),
    (pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
    (pa.decimal128(5, 2), pa.decimal128(6, 4)),
    (pa.bool_(), pa.int64()),
    (pa.list_(pa.int32()), pa.map_(pa.int32(), pa.int32())),
]


@pytest.mark.parametrize(("narrow", "wide"), WIDER)
def test_a_type_goes_into_a_wider_one_only(narrow: pa.DataType, wide: pa.DataType) -> None:
    assert unfit(narrow, wide) is None
    assert unfit(wide, narrow) is not None


@pytest.mark.parametrize(("one", "other"), NEVER)
def test_some_types_have_nothing_in_common(one: pa.DataType, other: pa.DataType) -> None:
    assert unfit(one, other) == Unfit((), one, other)
    assert unfit(other, one) == Unfit((), other, one)
    with pytest.raises(pa.ArrowTypeError):
        unite_schemas(pa.schema([("a", one)]), pa.schema([("a", other)]))


def test_what_does_not_fit_is_told_with_its_place() -> None:
    assert unfit(LATER, OUTER) == Unfit(("element", "m", "value"), pa.int64(), pa.int8())


@pytest.mark.parametrize("part", [slice(0, 4), slice(1, 4), slice(3, 4), slice(2, 2)])
def test_fields_are_found_by_name_at_any_depth(part: slice) -> None:
    values = pa.array(VALUES, OUTER)[part.start : part.stop]
    found = align_values(values, LATER)
    found.validate(full=True)
    assert found.to_pylist() == ALIGNED[part]


def test_a_table_gets_missing_columns_and_loses_others_and_keeps_its_stamp() -> None:
    table = pa.table({"a": pa.array([1, None], pa.int8()), "gone": ["x", "y"]}).replace_schema_metadata({"k": "v"})
    found = align_table(table, pa.schema([("new", OUTER), ("a", pa.int64())]))
    assert found.to_pylist() == [{"new": None, "a": 1}, {"new": None, "a": None}]
    assert found.schema.metadata == {b"k": b"v"}


def test_both_schemas_go_into_the_one_of_both() -> None:
    one = pa.schema([("a", pa.int8()), ("at", pa.struct([("x", pa.int64())])), ("old", pa.string())])
    other = pa.schema([("at", pa.struct([("y", pa.string()), ("x", pa.int8())])), ("a", pa.int32()), ("new", OUTER)])
    both = unite_schemas(one, other)
    assert both.names == ["a", "at", "old", "new"]
    assert both.field("a").type == pa.int32()
    assert both.field("at").type == pa.struct([("x", pa.int64()), ("y", pa.string())])
    for part in (one, other):
        assert all(unfit(field.type, both.field(field.name).type) is None for field in part)
