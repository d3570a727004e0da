"""The meaning of a source's columns: SQL expressions that make events of its rows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sessionizer.stream_spec.document.names import COLUMN_NAMES_SCHEMA, ColumnName, Expression
from sessionizer.stream_spec.document.section import Section
from sessionizer.stream_spec.effect import Effect, PayloadEffect, Verdict


class Mapping(Section):
    """SQL expressions over the columns of the source, one row of it being one event."""

    key: Annotated[
        Expression,
        Effect(
            "key changed",
            "{open} stay under the old keys: sessions of a user may split or merge",
            Verdict.PARTIAL,
            "To move open events, declare a migration: key: …",
            command="upgrade {stream}",
        ),
    ] = Field(
        description="Key of the session, such as the user. Cast to string. If it is null, the row is quarantined.",
        examples=["user_id"],
    )
    client: Annotated[
        Expression | None,
        Effect(
            "client changed",
            "earlier events in {open} keep their client and its timeout",
            Verdict.PARTIAL,
            "To change it, declare a migration: client: …",
            command="upgrade {stream}",
        ),
    ] = Field(
        default=None,
        description="Client (tenant, site, app) whose timeout applies. Cast to string. Null means none.",
        examples=["client"],
    )
    event_time: Annotated[
        Expression | None,
        Effect(
            "event time changed",
            "{open} mix events of both clocks, and rows before the watermark are late",
            Verdict.PARTIAL,
            "Compare the two expressions on real rows first: `sessionizer tables` shows the present ones",
            command="upgrade {stream}",
        ),
    ] = Field(
        default=None,
        description="Time of the event, as a timestamp, kept to the millisecond. Needed in event_time mode.",
        examples=["timestamp_millis(ts)"],
    )
    event_id: Annotated[
        Expression,
        Effect(
            "event id changed",
            "a duplicate of an earlier event counts as another event in {open}",
            Verdict.PARTIAL,
            "Change it while the source repeats no event",
            command="upgrade {stream}",
        ),
    ] = Field(
        description="Id that distinguishes the event from others of its key. Cast to string. A second event with the "
        "same id is a duplicate. If it is null, the row is quarantined.",
        examples=["event_id"],
    )
    closes: Annotated[
        Expression | None,
        Effect("closes changed", "earlier events keep the value that they came with, {open} continue"),
    ] = Field(
        default=None,
        description="True if the event ends its session. Null counts as false.",
        examples=["type <=> 'logout'"],
    )
    timeout_ms: Annotated[
        Expression | None, Effect("timeout expression changed", "earlier events keep their timeout, {open} continue")
    ] = Field(
        default=None,
        description="The event's own gap timeout, in milliseconds, as bigint. Null: the timeout of its client or of "
        "the stream applies. Zero or less: the row is quarantined.",
        examples=["timeout_s * 1000L"],
    )
    payload: Annotated[dict[ColumnName, Expression], PayloadEffect("column", command="upgrade {stream}")] = Field(
        default_factory=dict,
        description="Columns to keep of each event: name to SQL expression. Measures are computed from them.",
        examples=[{"page": "page"}],
        json_schema_extra=COLUMN_NAMES_SCHEMA,
    )
