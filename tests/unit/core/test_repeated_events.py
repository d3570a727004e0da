"""Repeated events whose payload has values that Python has no object for, and NaN, which Python calls unequal."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sessionizer.core.definition.rules import Clock, SessionRules
from sessionizer.core.key_group.admission import admit
from sessionizer.core.key_group.merging import Merged, merge
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
