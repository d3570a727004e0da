"""Sessions and events of a streamed log as tuples: from the tables, from the state, and from the definition.

Times are epoch milliseconds.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from sessionizer.core.definition.event import AdmittedEvent, Event, session_id
from sessionizer.core.definition.outcome import QuarantineReason, Session
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.core.wire import schema
from support.streams.strategies import PAYLOAD_COLUMNS

Plain = tuple[Any, ...]
Record = dict[str, Any]


def records(table: pa.Table | pa.RecordBatch | None) -> list[Record]:
    return [] if table is None else table.to_pylist()


def session_of_row(row: Row, arrivals: set[int]) -> Plain:
    record = row.asDict(recursive=True)
    return (record["session_id"], *_session(record, arrivals))


def session_of_record(record: Record, arrivals: set[int]) -> Plain:
    """A finished session that nothing has emitted yet.

    ``arrivals``: the clocks of the micro-batches. An event without a time of its own is shown at its arrival.
    """
    identity = session_id(record["key"], _ms(record["started_at"]), record["first_event_id"])
    return (identity, *_session(record, arrivals))


def session_of_oracle(session: Session) -> Plain:
    events = tuple((event.event_time_ms, event.event_id, event.closes, *event.payload) for event in session.events)
    return (*session_facts(session), events)


def session_facts(session: Session) -> Plain:
    """A session without its events."""
    facts = (session.session_id, session.key, session.client, session.started_at_ms, session.ended_at_ms)
    return (*facts, session.event_count, session.close_reason.value)


def open_event_of_record(record: Record) -> Plain:
    return (record[schema.CLOCK], record[schema.TIMEOUT], *event_of_record(record))


def open_event_of_oracle(admitted: AdmittedEvent) -> Plain:
    return (admitted.clock_ms, admitted.timeout_ms, *event_of_oracle(admitted.event))


def event_of_record(record: Record) -> Plain:
    """An event as the key groups know it, without its timeout; 0 stands for no time of its own."""
    own_time = record[schema.TIE] if schema.TIE in record else record[schema.CLOCK]
    payload = (record.get(f"{schema.PAYLOAD}_{name}") for name in PAYLOAD_COLUMNS)
    identity = (record[schema.KEY], record.get(schema.CLIENT), own_time)
    return (*identity, record[schema.EVENT_ID], record[schema.CLOSES], *payload)


def event_of_oracle(event: Event) -> Plain:
    """An event of the definition, without its timeout."""
    return (event.key, event.client, event.event_time_ms or 0, event.event_id, event.closes, *event.payload)


def conflict_of_row(row: Row) -> Plain:
    """A row of ``quarantine``, which must be there for being a conflicting duplicate."""
    assert row["reason"] == QuarantineReason.CONFLICTING_DUPLICATE
    return event_of_record(json.loads(row["raw"]))


def late_event_of_row(row: Row) -> Plain:
    payload = (row[name] for name in PAYLOAD_COLUMNS)
    identity = (row["key"], row["client"], _ms(row["event_time"]), row["event_id"], row["closes"])
    return (*identity, row["timeout_ms"], *payload)


def late_event_of_oracle(event: Event) -> Plain:
    return (*late_facts(event), *event.payload)


def late_facts(event: Event) -> Plain:
    """A late event without its payload."""
    own_ms = None if event.timeout_ms is None else min(event.timeout_ms, NEVER_MS)  # as the guard passes it on
    return (event.key, event.client, event.event_time_ms, event.event_id, event.closes, own_ms)


def _session(record: Record, arrivals: set[int]) -> Plain:
    times = (_ms(record["started_at"]), _ms(record["ended_at"]))
    events = tuple(_session_event(event, arrivals) for event in record["events"])
    return (record["key"], record["client"], *times, record["event_count"], record["close_reason"], events)


def _session_event(event: Mapping[str, Any], arrivals: set[int]) -> Plain:
    own_time = _ms(event["event_time"])
    payload = (event[name] for name in PAYLOAD_COLUMNS)
    return (None if own_time in arrivals else own_time, event["event_id"], event["closes"], *payload)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
