"""The meaning of a source's columns: SQL expressions that make events of its rows."""

from __future__ import annotations

from pydantic import Field

from sessionizer.stream_spec.document.names import COLUMN_NAMES_SCHEMA, ColumnName, Expression
from sessionizer.stream_spec.document.section import Section


class Mapping(Section):
    """SQL expressions over the columns of the source, one row of it being one event."""

    key: Expression = Field(
        description="Key of the session, such as the user. Cast to string. If it is null, the row is quarantined.",
        examples=["user_id"],
    )
    client: Expression | None = Field(
        default=None,
        description="Client (tenant, site, app) whose timeout applies. Cast to string. Null means none.",
        examples=["client"],
    )
    event_time: Expression | None = Field(
        default=None,
        description="Time of the event, as a timestamp, kept to the millisecond. Needed in event_time mode.",
        examples=["timestamp_millis(ts)"],
    )
    event_id: Expression = Field(
        description="Id that distinguishes the event from others of its key. Cast to string. A second event with the "
        "same id is a duplicate. If it is null, the row is quarantined.",
        examples=["event_id"],
    )
    closes: Expression | None = Field(
        default=None,
        description="True if the event ends its session. Null counts as false.",
        examples=["type <=> 'logout'"],
    )
    timeout_ms: Expression | None = Field(
        default=None,
        description="The event's own gap timeout, in milliseconds, as bigint. Null: the timeout of its client or of "
        "the stream applies. Zero or less: the row is quarantined.",
        examples=["timeout_s * 1000L"],
    )
    payload: dict[ColumnName, Expression] = Field(
        default_factory=dict,
        description="Columns to keep of each event: name to SQL expression. Measures are computed from them.",
        examples=[{"page": "page"}],
        json_schema_extra=COLUMN_NAMES_SCHEMA,
    )
