"""The contents of a key group for inspection: sizes, heaviest keys, ends of sessions, open sessions of one key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sessionizer.core.definition.rules import NEVER_MS, SessionRules
from sessionizer.core.key_group.append_or_merge import GroupRules
from sessionizer.core.key_group.cutting import int64s
from sessionizer.core.key_group.merging import ends_of_open, instants, lay_out, sessions_of
from sessionizer.core.wire import schema
from sessionizer.core.wire.codec import decode_log, pieces
from sessionizer.core.wire.event_size import json_objects, sizes_of_rows


def would_be_schema(payload: schema.Payload) -> pa.Schema:
    """Return the schema of open sessions: ``schema.session_schema`` with two other names and ``would_end_at``.

    The last is null if only a closing event can end the session.
    """
    renamed = {"ended_at": "last_event_at", "close_reason": "would_close_reason"}
    fields = [field.with_name(renamed.get(field.name, field.name)) for field in schema.session_schema(payload)]
    return pa.schema([*fields, pa.field("would_end_at", pa.timestamp("us", tz="UTC"))])


def would_be_sessions(log: Sequence[pa.Table], rules: SessionRules, payload: schema.Payload) -> Iterator[pa.Table]:
    """Yield the sessions that a group's log makes, without duplicates, by ``would_be_schema``, in pieces.

    Raises ``pa.ArrowTypeError`` if a column has no type in common among the tables and ``payload``.
    """
    if not log:
        return
    laid = lay_out(log, rules, payload)
    sessions = sessions_of(laid, np.ones(len(laid.cuts.due), np.bool_), payload)
    if sessions is None:
        return
    ends = instants(pa.array(laid.cuts.due, mask=laid.cuts.due >= NEVER_MS))
    names = would_be_schema(payload).names
    yield from pieces(pa.Table.from_arrays([*sessions.columns, ends], names=names))


def open_schema(payload: schema.Payload, *, shows_events: bool) -> pa.Schema:
    """Return the schema of a snapshot's open sessions.

    ``settled``: whether no later event can precede the first one, so that the session keeps its id. ``due_at``: when
    the session ends if no more events come, null if only a closing event can end it. ``_place``: a number of its own
    among all open sessions, by which its measures are joined.
    """
    sessions = schema.session_schema(payload)
    return pa.schema(
        [
            *(sessions.field(name) for name in (schema.KEY, schema.CLIENT, "started_at")),
            sessions.field("ended_at").with_name("last_event_at"),
            *(sessions.field(name) for name in ("event_count", "first_event_id")),
            pa.field("settled", pa.bool_()),
            pa.field("due_at", pa.timestamp("us", tz="UTC")),
            *([pa.field("_place", pa.int64()), sessions.field("events")] if shows_events else []),
        ]
    )


def take_snapshot(
    log: Sequence[pa.Table], key_group: int, shared: GroupRules, settled_by_ms: int
) -> Iterator[pa.Table]:
    """Yield the sessions that a group's log makes, by ``open_schema``, in pieces: at least one, which may be empty.

    Events at or before ``settled_by_ms`` (epoch ms) come no more.
    """
    payload = shared.payload if shared.shows_events else []
    wanted = open_schema(payload, shows_events=shared.shows_events)
    if not log:
        yield wanted.empty_table()
        return
    laid = lay_out(log, shared.rules, payload)
    cuts, clock = laid.cuts, int64s(laid.events, schema.CLOCK)
    first = laid.order[cuts.first]
    head = laid.events.select([schema.KEY, schema.CLIENT, schema.EVENT_ID]).take(pa.array(first))
    columns = [
        head.column(schema.KEY),
        head.column(schema.CLIENT),
        instants(clock[first]),
        instants(clock[laid.order[cuts.last]]),
        pa.array(cuts.length.astype(np.int32)),
        head.column(schema.EVENT_ID),
        pa.array(clock[first] <= settled_by_ms),
        instants(pa.array(cuts.due, mask=cuts.due >= NEVER_MS)),
    ]
    if shared.shows_events:
        every = sessions_of(laid, np.ones(len(first), np.bool_), payload)
        places = 2**40  # of a key group, more than it has open sessions
        columns.append(pa.array(key_group * places + np.arange(len(first))))
        columns.append(pa.array([], wanted.field("events").type) if every is None else every.column("events"))
    yield from pieces(pa.Table.from_arrays(columns, names=wanted.names))


@dataclass(frozen=True, slots=True)
class KeyWeight:
    """The number of open events of a key, repeats included, and their decoded size in bytes."""

    key: str
    key_group: int
    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GroupContents:
    """The contents of one key group.

    ``blobs`` is their number and ``blob_bytes`` their size in the state. ``bytes`` is the decoded size of the open
    events. ``sessions`` counts without repeats. The first session could end at ``first_due_ms`` (epoch ms), the last at
    ``last_due_ms``. None means never.
    """

    key_group: int
    blobs: int
    blob_bytes: int
    bytes: int
    events: int
    keys: int
    sessions: int
    first_due_ms: int | None
    last_due_ms: int | None
    heaviest: tuple[KeyWeight, ...]

    @classmethod
    def from_json(cls, text: str) -> GroupContents:
        """Return the contents from the text of ``json.dumps(asdict(…))``."""
        value: dict[str, Any] = json.loads(text)
        return cls(**{**value, "heaviest": tuple(KeyWeight(**each) for each in value["heaviest"])})


def contents_of(blobs: Sequence[bytes], key_group: int, rules: SessionRules, heaviest: int) -> GroupContents:
    """Return the contents of the log in ``blobs``, oldest first, with as many keys as ``heaviest`` says."""
    log = decode_log(blobs)
    ends = ends_of_open(log, rules)
    sized = [pa.table({"key": table.column(schema.KEY), "bytes": pa.array(sizes_of_rows(table))}) for table in log]
    of_keys = pa.concat_tables(sized).group_by("key").aggregate([("bytes", "count"), ("bytes", "sum")])
    columns = (of_keys.column(name).to_pylist() for name in ("key", "bytes_count", "bytes_sum"))
    weights = [KeyWeight(key, key_group, events, size) for key, events, size in zip(*columns, strict=True)]
    return GroupContents(
        key_group=key_group,
        blobs=len(blobs),
        blob_bytes=sum(map(len, blobs)),
        bytes=sum(each.bytes for each in weights),
        events=sum(table.num_rows for table in log),
        keys=len(weights),
        sessions=ends.sessions,
        first_due_ms=ends.due_ms,
        last_due_ms=ends.latest_due_ms,
        heaviest=tuple(heaviest_of(weights, heaviest)),
    )


def heaviest_of(weights: Iterable[KeyWeight], count: int) -> list[KeyWeight]:
    """Return the ``count`` keys with the most bytes, heaviest first."""
    return sorted(weights, key=lambda each: (-each.bytes, each.key))[:count]


def sessions_of_key(
    log: Sequence[pa.Table], key: str, rules: SessionRules, payload: schema.Payload
) -> list[dict[str, Any]]:
    """Return the open sessions of a key, by ``would_be_schema`` as JSON: times in ISO 8601, no nulls."""
    # A table without a row of the key stays, because its place in the log shows which tables came with one batch.
    ours = [table.filter(pc.equal(table.column(schema.KEY), key)) for table in log]
    if not any(table.num_rows for table in ours):
        return []
    return [json.loads(text) for part in would_be_sessions(ours, rules, payload) for text in json_objects(part)]
