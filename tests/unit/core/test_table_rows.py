"""Rows as the tables have them, made of what the operator emits."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa

from sessionizer.core.definition.event import session_id
from sessionizer.core.definition.rules import Clock
from sessionizer.core.key_group.table_rows import RowOrigin, late_rows, quarantine_rows, session_rows
from sessionizer.core.wire import schema

PAYLOAD = [pa.field("page", pa.string())]
NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
WRITTEN = RowOrigin("first", 7, datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC))
ORIGIN = {"lineage": "first", "batch_id": 7}


def sessions() -> pa.RecordBatch:
    event = {"event_time": NOON, "event_id": "e1", "closes": True, "page": "/"}
    session = {
        "key": "ada",
        "client": None,
        "started_at": NOON,
        "ended_at": NOON.replace(second=9),
        "event_count": 1,
        "close_reason": "gap",
        "first_event_id": "e1",
        "events": [event],
    }
    return pa.RecordBatch.from_pylist([session], schema.session_schema(PAYLOAD))


def test_a_session_gets_its_id_day_and_duration() -> None:
    (row,) = session_rows(PAYLOAD, keep_events=True).rows(sessions(), WRITTEN).to_pylist()
    started_ms = int(NOON.timestamp() * 1000)
    assert row["session_id"] == session_id("ada", started_ms, "e1")
    assert (row["date"], row["duration_ms"]) == (date(2026, 3, 1), 9_000)
    assert [event["page"] for event in row["events"]] == ["/"]
    assert row.items() >= {**ORIGIN, "emitted_at": WRITTEN.at}.items()


def test_events_can_be_left_out() -> None:
    shape = session_rows(PAYLOAD, keep_events=False)
    assert "events" not in shape.schema.names
    assert shape.rows(sessions(), WRITTEN).num_rows == 1


def test_a_late_event_lies_in_the_day_of_its_own_time() -> None:
    event = {"key": "ada", "clock": int(NOON.timestamp() * 1000), "event_id": "e", "closes": False, "payload_page": "/"}
    batch = pa.RecordBatch.from_pylist([event], schema.event_schema(PAYLOAD, Clock.EVENT_TIME))
    (row,) = late_rows(PAYLOAD).rows(batch, WRITTEN).to_pylist()
    assert (row["event_time"], row["date"], row["page"]) == (NOON, date(2026, 3, 1), "/")
    assert row.items() >= {**ORIGIN, "noticed_at": WRITTEN.at}.items()


def test_a_refused_row_lies_in_the_day_it_was_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"reason": ["null_key"], "_raw": ["{}"], "_position": ["file"]})
    (row,) = quarantine_rows().rows(batch, WRITTEN).to_pylist()
    assert (row["reason"], row["raw"], row["source_position"]) == ("null_key", "{}", "file")
    assert row.items() >= {**ORIGIN, "date": date(2026, 3, 2), "quarantined_at": WRITTEN.at}.items()
