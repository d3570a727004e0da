"""Removal of punctuations whose batch is committed.

Not left to Spark (``cleanSource``): it tries to remove the last ones again after each batch, and warns that it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.data_files import names_in
from sessionizer.lineage.checkpoint import PUNCTUATIONS, committed_batch, files_of_batch, files_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.home.data_root import DataPath


@dataclass(slots=True)
class TakenPunctuations:
    """Punctuations in ``folder`` that the query with this ``checkpoint`` has read.

    ``swept``: the last batch dealt with.
    """

    folder: DataPath
    checkpoint: DataPath
    swept: int | None = None

    @classmethod
    def left_behind(cls, folder: DataPath, checkpoint: DataPath) -> TakenPunctuations:
        """Begin where an earlier driver ended, with the punctuations that it did not remove. Raises OSError."""
        taken = cls(folder, checkpoint, committed_batch(checkpoint))
        if taken.swept is not None and any(name.endswith(".json") for name in names_in(folder)):
            taken._remove(files_until(checkpoint, taken.swept, PUNCTUATIONS))
        return taken

    def sweep(self, committed: int | None) -> None:
        """Remove the punctuations of batches up to ``committed`` that are still there. Raises OSError."""
        if committed is None or committed == self.swept:
            return
        first = committed if self.swept is None else self.swept + 1
        for batch_id in range(first, committed + 1):
            self._remove(files_of_batch(self.checkpoint, batch_id, PUNCTUATIONS))
            self.swept = batch_id

    def _remove(self, uris: Iterable[str]) -> None:
        for uri in uris:
            (self.folder / uri.rpartition("/")[2]).unlink(missing_ok=True)
