"""Where the results of a stream go."""

from __future__ import annotations

from pydantic import Field

from sessionizer.stream_spec.document.names import Text
from sessionizer.stream_spec.document.section import Section


class Sink(Section):
    """The tables of the stream: sessions, quarantine, late_events."""

    keep_events: bool = Field(
        default=True,
        description="Whether a session keeps its events, as an array of structs in the column events.",
    )
    path: Text | None = Field(
        default=None,
        description="Folder of the tables, relative to the platform home (SESSIONIZER_HOME) unless absolute or a URI. "
        "null: streams/<name>/tables.",
        examples=["lake/clicks"],
    )
