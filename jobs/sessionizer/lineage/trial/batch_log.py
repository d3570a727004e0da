"""``batches.json`` of a lineage: what its newest batches did, one by one, and the sum of all before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.home.json_file import read_json, write_json
from sessionizer.home.stamp import require_known_format, stamped
from sessionizer.lineage.trial.figures import BatchFacts, Figures

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath

KEPT: Final = 20
"""Batches that are kept one by one."""
_EARLIER, _BATCHES = "earlier", "batches"


class BatchLog:
    """Kept by the driver, so that a verb knows what was usual before it, and a restart what a trial has seen so far."""

    def __init__(self, file: ControlPath) -> None:
        """Raises DamagedFile for a file of a newer release; one that cannot be read counts from nothing."""
        self._file, self._added = file, 0
        kept = read_json(file) or {}
        require_known_format(file, kept)
        try:
            self._earlier = Figures.from_json(kept.get(_EARLIER, {}))
            self._batches = [BatchFacts.from_json(batch) for batch in kept.get(_BATCHES, [])]
        except (AttributeError, TypeError, ValueError):  # figures only: no reason to keep a stream from going on
            self._earlier, self._batches = Figures(), []

    @property
    def added(self) -> int:
        """How many batches were added since it was opened."""
        return self._added

    @property
    def life(self) -> Figures:
        """Of every batch of the lineage."""
        return self._earlier.and_those_of(self._batches)

    @property
    def recent(self) -> Figures:
        """Of the newest batches."""
        return Figures.of(self._batches)

    def add(self, facts: BatchFacts) -> None:
        """Note a batch. One that runs again takes the place of what it did before. Raises UnwritablePath, DiskFull."""
        batches = [batch for batch in self._batches if batch.batch_id < facts.batch_id]
        batches.append(facts)
        self._earlier = self._earlier.and_those_of(batches[:-KEPT])
        self._batches = batches[-KEPT:]
        self._added += 1
        told = {_EARLIER: self._earlier.to_json(), _BATCHES: [batch.to_json() for batch in self._batches]}
        write_json(self._file, stamped(told), durable=False)
