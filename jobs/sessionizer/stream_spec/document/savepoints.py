"""The automatic savepoints of a stream: their interval, their form and how long they are kept."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from sessionizer.stream_spec.document.duration import MILLISECONDS_OF, Duration
from sessionizer.stream_spec.document.section import Section

WEEK: Final = 7 * MILLISECONDS_OF["day"]


class Savepoints(Section):
    """Automatic savepoints. They have no effect on the results, so a change of a field needs no new start."""

    every_ms: Duration | None = Field(
        default=None,
        alias="every",
        description="Time between two scheduled savepoints (duration), while batches come. null: no scheduled "
        "savepoints.",
    )
    native: bool = Field(
        default=False,
        description="Whether scheduled savepoints are copies of the checkpoint's files: made in seconds, without "
        "Spark, for this line of Spark only.",
    )
    keep_ms: Duration = Field(
        default=WEEK,
        alias="keep",
        description="Age after which a scheduled savepoint is removed (duration). Those that users made stay.",
    )
    at_least: int = Field(
        default=3,
        ge=1,
        description="Number of the newest scheduled savepoints that are kept whatever their age.",
    )
