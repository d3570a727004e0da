"""A group that holds more text in a column than offsets of 32 bits reach."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sessionizer.core.definition.event import Event
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
from sessionizer.core.key_group.merging import merge
from sessionizer.core.wire import codec as wide
from sessionizer.core.wire import schema
from sessionizer.core.wire.codec import decode, encode
from sessionizer.core.wire.event_size import sizes_of_values, sizes_that_count

TWO_GIB = 2**31
RULES = SessionRules(Clock.EVENT_TIME, 0, 1_000_000, {}, None, None, max_bytes=64 * 2**20)
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
    """One event a millisecond, whose id is its number."""
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
