"""The rules about the end of a session, and about time."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from sessionizer.core.definition.rules import Clock
from sessionizer.home.clock import HOUR, MINUTE, SECOND
from sessionizer.stream_spec.document.duration import Duration
from sessionizer.stream_spec.document.names import Text
from sessionizer.stream_spec.document.section import Section, refusal
from sessionizer.stream_spec.effect import ANOTHER_STREAM, DurationEffect, Effect, Verdict

IDLE_AFTER: Final = MINUTE
MEBIBYTE: Final = 2**20
KEEP_CAPS: Final = "earlier events keep the caps that they came with"


def default_idle_after(fields: dict[str, Any]) -> int | None:
    """Return the default in milliseconds: only event time stands still when a source falls quiet."""
    clock: Clock | None = fields.get("clock")
    return IDLE_AFTER if clock and clock.has_watermark else None


class Rules(Section):
    """Timeouts, caps and tolerances. Durations are text with a unit in YAML, milliseconds in Python."""

    clock: Annotated[
        Clock,
        Effect("time mode changed", "open events are on the clock of before", Verdict.INCOMPATIBLE, ANOTHER_STREAM),
    ] = Field(
        default=Clock.EVENT_TIME,
        alias="time_mode",
        strict=False,
        description="The clock of the gap: event_time (of the events), processing_time (of their arrival), or none (no "
        "gap: only closing events and caps end a session).",
    )
    watermark_delay_ms: Annotated[Duration, DurationEffect("watermark delay", "a watermark never moves back")] = Field(
        default=10 * MINUTE,
        alias="watermark_delay",
        description="Longest delay of an event behind the newest event time (duration). A later event is late. An "
        "event time ahead of the driver's clock counts as the clock's time. Only event_time mode has late events.",
    )
    gap_timeout_ms: Annotated[
        Duration, DurationEffect("gap", "earlier events keep the timeout that they came with")
    ] = Field(
        default=30 * MINUTE,
        alias="gap_timeout",
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
        Text | None, Effect("table of timeouts changed", "earlier events keep their timeout")
    ] = Field(
        default=None,
        description="Delta table with the columns client (string) and timeout_ms (bigint, milliseconds), which may "
        "change while the stream runs. It overrides client_timeouts. Relative to the platform home unless absolute or "
        "a URI.",
        examples=["lake/client_timeouts"],
    )
    max_events: Annotated[int | None, Effect("cap changed", KEEP_CAPS)] = Field(
        default=10_000,
        ge=1,
        description="Number of events after which a session is cut. null: no cap.",
    )
    max_bytes: Annotated[int, Effect("cap changed", KEEP_CAPS)] = Field(
        default=64 * MEBIBYTE,
        ge=1,
        le=1024 * MEBIBYTE,
        description="Size of a session, in bytes, after which it is cut. Each value of an event's key, client, id and "
        "payload that is not null has eight bytes, also inside lists, structs and maps, plus the bytes of text and "
        "binary.",
    )
    max_duration_ms: Annotated[Duration | None, DurationEffect("cap", KEEP_CAPS)] = Field(
        default=24 * HOUR,
        alias="max_duration",
        description="Time since its first event after which a session is cut (duration). null: no cap.",
    )
    idle_after_ms: Annotated[
        Duration | None, DurationEffect("idle_after", "the watermark of a quiet source moves on earlier or later")
    ] = Field(
        default_factory=default_idle_after,
        alias="idle_after",
        json_schema_extra={"default": IDLE_AFTER},
        description="Wall-clock time with no new events after which the watermark moves on by itself, so that "
        "sessions of a quiet source close (duration). Only in event_time mode. null: never.",
    )
    emit_every_ms: Annotated[
        Duration | None, DurationEffect("emit_every", "finished sessions come out in other steps, the same ones")
    ] = Field(
        default=30 * SECOND,
        alias="emit_every",
        description="Step of event time in which finished sessions are emitted (duration). A session is emitted at "
        "most this much later, or one batch later in a backlog. Longer steps cost less. null: each session is emitted "
        "in the first batch in which it is final.",
    )
    future_tolerance_ms: Annotated[
        Duration, DurationEffect("future tolerance", "it decides which new rows are quarantined")
    ] = Field(
        default=10 * MINUTE,
        alias="future_tolerance",
        description="How far ahead of the wall clock an event time may be (duration). Later rows are quarantined.",
    )
    max_event_bytes: Annotated[int, Effect("cap of a row changed", "it decides which new rows are quarantined")] = (
        Field(
            default=524_288,
            ge=1,
            description="Size of a row, in bytes, above which it is quarantined.",
        )
    )

    @model_validator(mode="after")
    def _idle_only_in_event_time(self) -> Self:
        if self.idle_after_ms is not None and not self.clock.has_watermark:
            allowed = f"Omit it or write null, because time_mode is {self.clock}"
            raise refusal(self.idle_after_ms, allowed, "idle_after")
        return self
