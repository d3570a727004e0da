"""The rules of a stream, which decide where one session ends and the next begins. All times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


NEVER_MS: Final = 2**62
"""A moment, or a timeout, that is never reached. Twice this, less one, still fits a signed 64-bit column.

Any longer timeout counts as this one.
"""


class TimeMode(StrEnum):
    """The clock that a gap runs on."""

    EVENT_TIME = "event_time"
    """The time written in the event. Sessions close when the watermark passes."""
    PROCESSING_TIME = "processing_time"
    """The time of the batch that brought the event. Sessions close when the wall clock passes."""
    NONE = "none"
    """No gap: only closing events and caps end a session."""


class Caps(NamedTuple):
    """The most events, the longest time (ms) and the most bytes of a session. None means no such cap."""

    max_events: int | None = None
    max_duration_ms: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The rules of one stream.

    ``client_timeouts_ms`` maps a client to its own gap timeout, which overrides ``gap_timeout_ms``. A cap of ``None``
    never cuts. ``emit_every_ms`` limits how late a final session is emitted. It does not change any session.
    """

    time_mode: TimeMode
    watermark_delay_ms: int
    gap_timeout_ms: int
    client_timeouts_ms: Mapping[str, int]
    max_events: int | None
    max_duration_ms: int | None
    emit_every_ms: int = 0
    max_bytes: int | None = None

    @property
    def caps(self) -> Caps:
        """The caps that an event is admitted with."""
        return Caps(self.max_events, self.max_duration_ms, self.max_bytes)


def changed_timeouts(
    announced: Mapping[str, int], table: Mapping[str, int], inline: Mapping[str, int], default_ms: int
) -> dict[str, int]:
    """Return the clients whose timeout (ms) has changed, with the new one.

    ``announced`` is what the stream knows, ``table`` the present table of clients. A client that left the table gets
    its timeout in ``inline``, the spec's, or ``default_ms``.
    """
    wanted = {client: inline.get(client, default_ms) for client in announced} | dict(table)
    return {client: timeout for client, timeout in wanted.items() if announced.get(client) != timeout}
