"""Removal of punctuations whose batch is committed and no longer kept.

The batches that Spark keeps can be replayed (``spark.proof``), which needs their punctuations.

Not left to Spark (``cleanSource``): it tries to remove the last ones again after each batch, and warns that it cannot.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.batch_logs import list_begun_batches, list_committed_batches, read_planned_batch
from sessionizer.checkpoint.file_lists import files_between, files_of_batch, list_files_until
from sessionizer.checkpoint.names import PUNCTUATIONS
from sessionizer.home.data_files import list_names, remove_data

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.home.roots import DataPath

KEPT: Final = 100
"""Batches for which punctuations are kept: as many as Spark keeps of its logs."""


@dataclass(slots=True)
class TakenPunctuations:
    """Punctuations in ``folder`` that the query with this ``checkpoint`` has read.

    ``keep``: number of committed batches whose punctuations stay. ``swept``: the last batch dealt with. ``kept``:
    batches with their punctuations that are still there.
    """

    folder: DataPath
    checkpoint: DataPath
    keep: int = KEPT
    swept: int | None = None
    kept: deque[tuple[int, list[str]]] = field(default_factory=deque)

    @classmethod
    def left_behind(cls, folder: DataPath, checkpoint: DataPath, keep: int = KEPT) -> TakenPunctuations:
        """Begin where an earlier driver ended, with the punctuations that it did not remove. Raises OSError."""
        committed = list_committed_batches(checkpoint) & list_begun_batches(checkpoint)
        taken = cls(folder, checkpoint, keep, max(committed, default=None))
        there = {name for name in list_names(folder) if name.endswith(".json")} if committed else set()
        if taken.swept is not None and there:
            oldest = min(committed)
            read = list_files_until(checkpoint, oldest, PUNCTUATIONS)  # all since the lineage began, mostly gone
            taken._remove(uri for uri in read if _name(uri) in there)
            ends = [
                read_planned_batch(checkpoint, each).last_file_offset(PUNCTUATIONS) for each in (oldest, taken.swept)
            ]
            # to which of the batches each belongs is not worth a look at all of them: they are kept a little longer
            taken.kept.append((taken.swept, files_between(checkpoint, PUNCTUATIONS, *ends)))
        return taken

    def sweep(self, committed: int | None) -> None:
        """Note the punctuations of batches up to ``committed``, and remove those of batches that are no longer kept.

        Raises OSError.
        """
        if committed is None or committed == self.swept:
            return
        first = committed if self.swept is None else self.swept + 1
        for batch_id in range(first, committed + 1):
            if taken := files_of_batch(self.checkpoint, batch_id, PUNCTUATIONS):
                self.kept.append((batch_id, taken))
            self.swept = batch_id
        while self.kept and self.kept[0][0] <= committed - self.keep:
            self._remove(self.kept.popleft()[1])

    def _remove(self, uris: Iterable[str]) -> None:
        for uri in uris:
            remove_data(self.folder / _name(uri))


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]
