"""The meaning of a source's columns: SQL expressions that make events of its rows."""

from __future__ import annotations

from pydantic import Field

from sessionizer.stream_spec.document.names import COLUMN_NAMES_SCHEMA, ColumnName, Expression
from sessionizer.stream_spec.document.section import Section


class Mapping(Section):
    """SQL expressions over the columns of the source, one row of it being one event."""

    key: Expression = Field(
        description="Whose session it is. Cast to string; a row where it is null is quarantined.",
        examples=["user_id"],
    )
    client: Expression | None = Field(
        default=None,
        description="The client (tenant, site, app) whose timeout holds. Cast to string; null means none.",
        examples=["client"],
    )
    event_time: Expression | None = Field(
        default=None,
        description="When it happened, as a timestamp; kept to the millisecond. Needed in event_time mode.",
        examples=["timestamp_millis(ts)"],
    )
    event_id: Expression = Field(
        description="What tells the event from any other of its key. Cast to string; a second event of the same id is "
        "a duplicate, a row where it is null is quarantined.",
        examples=["event_id"],
    )
    closes: Expression | None = Field(
        default=None,
        description="True where the event ends its session. Null counts as false.",
        examples=["type <=> 'logout'"],
    )
    timeout_ms: Expression | None = Field(
        default=None,
        description="The event's own gap timeout, in milliseconds, as bigint. Null: that of its client or of the "
        "stream holds. Zero or less: the row is quarantined.",
        examples=["timeout_s * 1000L"],
    )
    payload: dict[ColumnName, Expression] = Field(
        default_factory=dict,
        description="Columns to keep of each event: name to SQL expression. Measures are computed from them.",
        examples=[{"page": "page"}],
        json_schema_extra=COLUMN_NAMES_SCHEMA,
    )
