"""Values of every type a payload can keep, as plain Python, as compared text and as JSON."""

import json
from decimal import Decimal
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from sessionizer.core.definition.event import Event
from sessionizer.core.definition.plain_values import format_value, order_of, plain_values
from sessionizer.core.definition.rules import Caps, Clock, SessionRules
from sessionizer.core.key_group.append_or_merge import (
    HEAVY_TABLE_BYTES,
    NO_PLAN,
    Arrivals,
    BatchBounds,
    GroupRules,
    admit,
    take_batch,
)
from sessionizer.core.key_group.cutting import combine_codes, equality_codes, order_codes
from sessionizer.core.key_group.merging import merge
from sessionizer.core.wire import codec as wide
from sessionizer.core.wire import schema
from sessionizer.core.wire.alignment import is_identical
from sessionizer.core.wire.codec import decode, encode
from sessionizer.core.wire.event_size import json_objects, sizes_of_values, sizes_that_count

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
    part = twice.slice(1, len(once))
    assert len(set(equality_codes(part).tolist())) == len(part), "a slice has the codes of its values"
    assert equality_codes(twice.slice(0, 0)).tolist() == []


def test_minus_zero_is_zero_in_lists_too() -> None:
    assert len(set(equality_codes(pa.array([0.0, -0.0])).tolist())) == 1
    assert len(set(order_codes(pa.array([[0.0], [-0.0]])).tolist())) == 1


def test_two_codes_make_one_in_the_order_of_the_first_then_of_the_second() -> None:
    first, second = equality_codes(pa.array([1, 1, 2, 1])), equality_codes(pa.array([1, 2, 1, 1]))
    assert combine_codes(first, second).tolist() == [0, 1, 2, 0]


TWO_GIB = 2**31
RULES = SessionRules(Clock.EVENT_TIME, 0, 1_000_000, {}, Caps(max_bytes=64 * 2**20))
PAYLOAD = [pa.field("page", pa.string()), pa.field("tags", pa.list_(pa.struct([pa.field("tag", pa.string())])))]
NESTED = [
    pa.array([None, "", "é"]),
    pa.array([None, b"\xff", b""], pa.large_binary()),
    pa.array([None, [], [None, "ab"]]),
    pa.array([None, [("k", None)], [("k", "v"), ("l", "")]], pa.map_(pa.string(), pa.string())),
    pa.array([None, {"a": None, "b": [1.0]}, {"a": "xy", "b": None}]),
    pa.array([None, 1, 2]),
    pa.nulls(3),
]


def events(count: int, text: str, key: str = "ann", first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            schema.KEY: pa.repeat(key, count),
            schema.CLIENT: pa.nulls(count, pa.string()),
            schema.CLOCK: pa.array([1 + number for number in numbers]),
            schema.EVENT_ID: pa.array([f"{number:08}" for number in numbers]),
            schema.CLOSES: pa.repeat(pa.scalar(False), count),
            schema.TIMEOUT: pa.nulls(count, pa.int64()),
            "payload_page": pa.repeat(text, count),
            "payload_tags": pa.array([[{"tag": "x"}]] * count, PAYLOAD[1].type),
        },
        schema=schema.event_schema(PAYLOAD, Clock.EVENT_TIME),
    )


def value_of(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(map(value_of, value))
    return tuple(map(value_of, value.values())) if isinstance(value, dict) else value


@pytest.mark.parametrize("column", NESTED, ids=lambda column: str(column.type))
def test_the_size_of_an_event_is_that_of_the_definition(column: pa.Array) -> None:
    base = Event("", None, 0, "").size
    expected = [Event("", None, 0, "", payload=(value_of(value),)).size - base for value in column.to_pylist()]
    assert sizes_of_values(column).tolist() == expected
    assert sizes_of_values(pa.concat_arrays([column, column]).slice(2, 3)).tolist() == expected[2:] + expected[:2]


def test_sizes_are_not_looked_at_where_they_cannot_matter() -> None:
    plain = events(10, "x").drop_columns(["payload_tags"])
    assert sizes_that_count(plain, [Caps(max_bytes=10_000)]) is None
    assert sizes_that_count(plain, [Caps()]) is None
    sizes = sizes_that_count(plain, [Caps(), Caps(max_bytes=100)])
    assert sizes is not None
    assert sizes.tolist() == [11 + 16 + 9] * 10


def test_pieces_are_the_whole_in_its_order_and_of_its_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "WIDE_FROM_BYTES", 0)
    monkeypatch.setattr(wide, "PIECE_BYTES", 1_000)
    whole = admit(events(50, "x" * 100), 0, RULES, {}).admitted
    large = wide.widen(whole)
    assert large.schema.field("payload_page").type == pa.large_string()
    assert large.schema.field("payload_tags").type.value_type.field("tag").type == pa.large_string()
    parts = wide.log_tables(large)
    assert len(parts) > 5
    assert all(part.num_rows < 10 for part in parts)
    assert pa.concat_tables([decode(encode(part)) for part in parts]).equals(whole)


def test_a_heavy_group_is_merged_before_it_grows_on() -> None:
    heavy = events(HEAVY_TABLE_BYTES // 2**20, "x" * 2**20)
    shared, plan, merges = GroupRules(RULES, PAYLOAD, 1), NO_PLAN, []
    for _ in range(20):
        step = take_batch(0, shared, plan, Arrivals([heavy]), BatchBounds(0, 0, 0), list)
        plan = step.plan
        merges.append(step.merged is not None)
    assert merges.index(True) == 16


@pytest.mark.long
def test_more_than_two_gib_of_a_column_merge() -> None:
    text = "x" * 2**19
    log = [admit(events(300, text, f"user-{number}", 300 * number), 0, RULES, {}).admitted for number in range(14)]
    assert sum(table.column("payload_page").nbytes for table in log) > TWO_GIB
    outcome = merge(log, 0, RULES, PAYLOAD)
    (left,) = outcome.open_events
    del log
    rows = 0
    for number, piece in enumerate(wide.pieces(left)):
        assert piece.schema.field("payload_page").type == pa.string()
        assert piece.nbytes < 2 * wide.PIECE_BYTES, number
        rows += piece.num_rows
    assert rows == 14 * 300


NESTED_OF_ALIKE = pa.struct([("x", pa.list_(pa.float32()))])
MAP = pa.map_(pa.string(), pa.float64())


@pytest.mark.parametrize(
    ("kind", "values", "others"),
    [
        (pa.float64(), [NAN, None, 0.0], [[NAN, 1.0, 0.0], [1.0, None, 0.0], [NAN, NAN, 0.0], [NAN, None]]),
        (pa.float16(), [NAN], [[1.0]]),
        (NESTED_OF_ALIKE, [{"x": [NAN, None]}, None], [[{"x": [NAN, 1.0]}, None], [{"x": [NAN]}, None], [None, None]]),
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
