"""Repeated events whose payload has values that Python has no object for, and NaN, which Python calls unequal."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.definition.rules import Clock, SessionRules
from sessionizer.core.key_group.append_or_merge import admit
from sessionizer.core.key_group.merging import Merged, merge
from sessionizer.core.key_group.repeated_events import surely_distinct
from sessionizer.core.wire import schema

RULES = SessionRules(Clock.EVENT_TIME, 0, 1_000, {}, None, None)
BEYOND_US = 9 * 10**18
NAN = float("nan")
VALUES = {
    "an instant in the year 287000": pa.array([BEYOND_US, BEYOND_US + 1]).cast(pa.timestamp("us", "UTC")),
    "NaN": pa.array([NAN, 1.0]),
    "NaN in a list": pa.array([[NAN], [NAN, NAN]]),
    "a map": pa.array([[("k", NAN)], [("k", None)]], pa.map_(pa.string(), pa.float64())),
    "bytes": pa.array([b"\xff", b"\xff\x00"]),
}


def merged(values: pa.Array, batches: list[list[int]]) -> Merged:
    """Of the one event of one user, sent with these values of its payload."""
    payload = [pa.field("value", values.type)]
    log = []
    for taken in batches:
        events = pa.table(
            {
                schema.KEY: ["ann"] * len(taken),
                schema.CLIENT: pa.nulls(len(taken), pa.string()),
                schema.CLOCK: [100] * len(taken),
                schema.EVENT_ID: ["a"] * len(taken),
                schema.CLOSES: [False] * len(taken),
                schema.TIMEOUT: pa.nulls(len(taken), pa.int64()),
                "payload_value": values.take(pa.array(taken)),
            },
            schema=schema.event_schema(payload, Clock.EVENT_TIME),
        )
        log.append(admit(events, 0, RULES, {}).admitted)
    return merge(log, 0, RULES, payload)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    ("batches", "repeated", "conflicting"),
    [([[0, 0]], 1, 0), ([[0], [0]], 1, 0), ([[0, 1]], 0, 1), ([[0], [1]], 0, 1), ([[0, 0], [1, 0], [1]], 2, 2)],
)
def test_what_repeats_and_what_conflicts_is_told_of_any_type(
    kind: str, batches: list[list[int]], repeated: int, conflicting: int
) -> None:
    outcome = merged(VALUES[kind], batches)
    refused = 0 if outcome.conflicting is None else outcome.conflicting.num_rows
    assert (outcome.repeated, refused) == (repeated, conflicting)
    (left,) = outcome.open_events
    assert left.num_rows == 1


# The proof that no id repeats is never wrong, and is found where it matters

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
