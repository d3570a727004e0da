"""The meaning of a stream's rows and sessions: mapping, rules, and migrations of open events."""

import re
from typing import Annotated, Any, Final, Self

from pydantic import Field, field_validator, model_validator

from sessionizer.core.definition.rules import Caps, Clock
from sessionizer.home.clock import HOUR, MINUTE, SECOND
from sessionizer.stream_spec.document.names import (
    COLUMN_NAMES_SCHEMA,
    ColumnName,
    Duration,
    Expression,
    Place,
    Section,
    Text,
    refusal,
)
from sessionizer.stream_spec.effect import ANOTHER_STREAM, DurationEffect, FieldEffect, PayloadEffect, Verdict


class Mapping(Section):
    """SQL expressions over the columns of the source, one row of it being one event."""

    key: Annotated[
        Expression,
        FieldEffect(
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
        FieldEffect(
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
        FieldEffect(
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
        FieldEffect(
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
        FieldEffect("closes changed", "earlier events keep the value that they came with, {open} continue"),
    ] = Field(
        default=None,
        description="True if the event ends its session. Null counts as false.",
        examples=["type <=> 'logout'"],
    )
    timeout_ms: Annotated[
        Expression | None,
        FieldEffect("timeout expression changed", "earlier events keep their timeout, {open} continue"),
    ] = Field(
        default=None,
        alias="timeout_ms",
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


MEBIBYTE: Final = 2**20
LARGEST: Final = 2**53 - 1
"""Largest number of events or bytes: state and records keep it exactly. No session and no row has so many."""
KEEP_CAPS: Final = "earlier events keep the caps that they came with"


def default_idle_after(fields: dict[str, Any]) -> int | None:
    """Return the default in milliseconds: only event time stands still when a source falls quiet."""
    clock: Clock | None = fields.get("clock")
    return MINUTE if clock and clock.has_watermark else None


class Rules(Section):
    """Timeouts, caps and tolerances. Durations are text with a unit in YAML, milliseconds in Python."""

    clock: Annotated[
        Clock,
        FieldEffect(
            "time mode changed", "open events are on the clock of before", Verdict.INCOMPATIBLE, ANOTHER_STREAM
        ),
    ] = Field(
        default=Clock.EVENT_TIME,
        alias="time_mode",
        strict=False,
        description="The clock of the gap: event_time (of the events), processing_time (of their arrival), or none (no "
        "gap: only closing events and caps end a session).",
    )
    watermark_delay_ms: Annotated[Duration, DurationEffect("watermark delay", "a watermark never moves back")] = Field(
        default=10 * MINUTE,
        description="Longest delay of an event behind the newest event time (duration). A later event is late. An "
        "event time ahead of the driver's clock counts as the clock's time. Only event_time mode has late events.",
    )
    gap_timeout_ms: Annotated[
        Duration, DurationEffect("gap", "earlier events keep the timeout that they came with")
    ] = Field(
        default=30 * MINUTE,
        description="Quiet time after which a session ends (duration), unless the event or its client has its own "
        "timeout.",
    )
    client_timeouts: Annotated[
        dict[Text, Duration], DurationEffect("client's gap", "earlier events keep the timeout that they came with")
    ] = Field(
        default_factory=dict,
        description="Gap timeouts of clients: client to duration.",
        examples=[{"acme": "10 minutes"}],
    )
    client_timeouts_table: Annotated[
        Place | None, FieldEffect("table of timeouts changed", "earlier events keep their timeout")
    ] = Field(
        default=None,
        description="Delta table with the columns client (string) and timeout_ms (bigint, milliseconds), which may "
        "change while the stream runs. It overrides client_timeouts. Relative to the platform home unless absolute or "
        "a URI.",
        examples=["lake/client_timeouts"],
    )
    max_events: Annotated[int | None, FieldEffect("cap changed", KEEP_CAPS)] = Field(
        default=10_000, ge=1, le=LARGEST, description="Number of events after which a session is cut. null: no cap."
    )
    max_bytes: Annotated[int, FieldEffect("cap changed", KEEP_CAPS)] = Field(
        default=64 * MEBIBYTE,
        ge=1,
        le=1024 * MEBIBYTE,
        description="Size of a session, in bytes, after which it is cut. Each value of an event's key, client, id and "
        "payload that is not null has eight bytes, also inside lists, structs and maps, plus the bytes of text and "
        "binary.",
    )
    max_duration_ms: Annotated[Duration | None, DurationEffect("cap", KEEP_CAPS)] = Field(
        default=24 * HOUR,
        description="Time since its first event after which a session is cut (duration). null: no cap.",
    )
    idle_after_ms: Annotated[
        Duration | None, DurationEffect("idle_after", "the watermark of a quiet source moves on earlier or later")
    ] = Field(
        default_factory=default_idle_after,
        json_schema_extra={"default": MINUTE},
        description="Wall-clock time with no new events after which the watermark moves on by itself, so that "
        "sessions of a quiet source close (duration). Only in event_time mode. null: never.",
    )
    emit_every_ms: Annotated[
        Duration | None, DurationEffect("emit_every", "finished sessions come out in other steps, the same ones")
    ] = Field(
        default=30 * SECOND,
        description="Step of event time in which finished sessions are emitted (duration). A session is emitted at "
        "most this much later, or one batch later in a backlog. Longer steps cost less. null: each session is emitted "
        "in the first batch in which it is final.",
    )
    future_tolerance_ms: Annotated[
        Duration, DurationEffect("future tolerance", "it decides which new rows are quarantined")
    ] = Field(
        default=10 * MINUTE,
        description="How far ahead of the wall clock an event time may be (duration). Later rows are quarantined.",
    )
    max_event_bytes: Annotated[
        int, FieldEffect("cap of a row changed", "it decides which new rows are quarantined")
    ] = Field(default=524_288, ge=1, le=LARGEST, description="Size of a row, in bytes, above which it is quarantined.")

    @property
    def caps(self) -> Caps:
        """The caps of a session."""
        return Caps(*(getattr(self, name) for name in Caps._fields))

    @model_validator(mode="after")
    def _idle_only_in_event_time(self) -> Self:
        if self.idle_after_ms is not None and not self.clock.has_watermark:
            allowed = f"Omit it or write null, because time_mode is {self.clock}"
            raise refusal(self.idle_after_ms, allowed, "idle_after")
        return self


SLUG_PATTERN: Final = "[a-z][a-z0-9_-]{0,62}"
ALLOWED_ID: Final = "a lower-case letter, then at most 62 lower-case letters, digits, hyphens or underscores"


def is_migration_id(text: str) -> bool:
    """Whether ``text`` may name a migration."""
    return re.fullmatch(SLUG_PATTERN, text) is not None


class Migration(Section):
    """SQL expressions over the columns of an open event.

    They are the payload columns, and ``key``, ``client``, ``event_time``, ``event_id``, ``closes``, ``timeout_ms``.
    All expressions of one migration see the event as it was before it.
    """

    id: str = Field(
        description="Name of the migration, unique in the stream. Never reuse one.",
        examples=["users-instead-of-browsers"],
        json_schema_extra={"pattern": f"^{SLUG_PATTERN}$"},
    )
    columns: dict[ColumnName, Expression] = Field(
        default_factory=dict,
        description="Payload columns to set: name to SQL expression.",
        examples=[{"device": "coalesce(device, element_at(split(user_agent, ' '), 1))"}],
        json_schema_extra=COLUMN_NAMES_SCHEMA,
    )
    key: Expression | None = Field(
        default=None,
        description="The new key of each open event, cast to string. Sessions merge or split by it. It is never null.",
        examples=["coalesce(user_id, key)"],
    )
    client: Expression | None = Field(
        default=None, description="The new client of each open event, cast to string. Null means none."
    )
    drop: list[ColumnName] = Field(
        default_factory=list, description="Payload columns that open events lose.", examples=[["user_agent"]]
    )
    where: Expression | None = Field(
        default=None,
        description="Condition that an open event must meet to stay. The others leave, and the plan counts them.",
        examples=["client <> 'test'"],
    )
    timeout_ms: Expression | None = Field(
        default=None,
        alias="timeout_ms",
        description="The new gap timeout of each open event, in milliseconds, as bigint. It is positive, never null.",
    )

    @field_validator("id")
    @classmethod
    def _names_a_migration(cls, text: str) -> str:
        if not is_migration_id(text):
            raise refusal(text, ALLOWED_ID)
        return text

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not any((self.columns, self.key, self.client, self.drop, self.where, self.timeout_ms)):
            raise refusal(None, "at least one of columns, key, client, drop, where, timeout_ms", "columns")
        for name in self.drop:
            if name in self.columns:
                raise refusal(name, "a column that the same migration does not set", "drop")
        return self
