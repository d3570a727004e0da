"""What a feed writes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sessionizer_demo.feed.pacing import Tick


class FeedSink(Protocol):
    """Takes ticks until it is closed."""

    def write(self, tick: Tick) -> None:
        """Send the rows of ``tick``; when this returns they may be counted."""

    def close(self) -> None:
        """Nothing sent may be lost after this. Raises SourceUnreachable if something was."""
