"""Removal of punctuations that were read. A failure costs disk space, not the stream, and is retried a minute later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.errors import StoreUnreachable
from sessionizer.home.clock import MINUTE, epoch_ms
from sessionizer.home.local_files import first_line
from sessionizer.spark.ingest.taken_punctuations import KEPT, TakenPunctuations

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.roots import DataPath

RETRY_AFTER_MS: Final = MINUTE


class PunctuationRemoval:
    """Removal of the punctuations in ``folder`` that the query with this ``checkpoint`` has read.

    ``say`` takes a line of text. ``keep``: number of committed batches whose punctuations stay.
    """

    def __init__(self, folder: DataPath, checkpoint: DataPath, say: Callable[[str], None], keep: int = KEPT) -> None:
        self._folder, self._checkpoint, self._say, self._keep = folder, checkpoint, say, keep
        self._taken = self._left_behind()
        self._failed_at: int | None = None

    def is_due(self, committed: int | None) -> bool:
        """Whether a batch was ``committed`` since the last removal, or one that failed is to be retried."""
        if self._failed_at is not None:
            return epoch_ms() >= self._failed_at + RETRY_AFTER_MS
        return committed not in (None, self._taken.swept)

    def remove(self, committed: int | None) -> None:
        """Remove the punctuations that no batch needs any more, if a removal is due. A failure is only said."""
        if not self.is_due(committed):
            return
        try:
            if self._failed_at is not None:
                self._taken = self._left_behind()  # as the next driver would, because it may have failed anywhere
            self._taken.sweep(committed)
            self._failed_at = None
        except (OSError, ValueError, StoreUnreachable) as error:
            self._failed_at = epoch_ms()
            self._say(f"punctuations that were read cannot be removed: {first_line(error)}")

    def _left_behind(self) -> TakenPunctuations:
        return TakenPunctuations.left_behind(self._folder, self._checkpoint, self._keep)
