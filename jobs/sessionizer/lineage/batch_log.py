"""``batches.json`` of a lineage: what its newest batches did, one by one, the sum of all before, and of the first.

It also has the newest batch that brought rows to each table, which a driver compares with the tables at its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.json_record import add_stamp, require_known_format
from sessionizer.home.record_file import read_json, write_json
from sessionizer.lineage.figures import BatchFacts, BatchFigures

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sessionizer.home.roots import ControlPath

KEPT: Final = 20
"""Number of batches that are kept one by one."""
_EARLIER, _BATCHES, _WRITTEN, _ACCEPTED, _FIRST = "earlier", "batches", "written", "accepted", "first"


class BatchLog:
    """Figures that the driver keeps: a command reads the usual ones from it, a restart the progress of a canary."""

    def __init__(self, file: ControlPath) -> None:
        """Read the file, or begin empty if it cannot be read. Raises DamagedFile for a file of a newer release."""
        self._file, self._added = file, 0
        kept = read_json(file) or {}
        require_known_format(file, kept)
        try:
            self._earlier = BatchFigures.from_json(kept.get(_EARLIER, {}))
            self._batches = [BatchFacts.from_json(batch) for batch in kept.get(_BATCHES, [])]
            self._first = BatchFigures.from_json(kept.get(_FIRST, {}))
        except (AttributeError, TypeError, ValueError):  # figures only: no reason to keep a stream from going on
            self._earlier, self._batches, self._first = BatchFigures(), [], BatchFigures()
        self._written = _batches_by_table(kept.get(_WRITTEN))
        self._accepted = _names(kept.get(_ACCEPTED))

    @property
    def added(self) -> int:
        """Number of batches added since the log was opened."""
        return self._added

    @property
    def life(self) -> BatchFigures:
        """Figures of every batch of the lineage."""
        return self._earlier.and_those_of(self._batches)

    @property
    def recent(self) -> BatchFigures:
        """Figures of the newest batches."""
        return BatchFigures.of(self._batches)

    @property
    def kept_batches(self) -> Mapping[int, BatchFacts]:
        """The newest batches, by number."""
        return {batch.batch_id: batch for batch in self._batches}

    @property
    def first(self) -> BatchFigures:
        """Sum of the first batches of the lineage, as many as are kept one by one."""
        return self._first

    @property
    def has_batches(self) -> bool:
        """Whether a batch of the lineage was noted."""
        return bool(self._batches or self._written)

    @property
    def written(self) -> Mapping[str, int]:
        """The newest batch with rows for a table, by ``table_key``."""
        return self._written

    @property
    def accepted(self) -> frozenset[str]:
        """Unknown lineages whose rows in the tables a user accepted."""
        return self._accepted

    def add(self, facts: BatchFacts, tables: Collection[str] = ()) -> None:
        """Note a batch that brought rows to ``tables``. A batch that runs again replaces its earlier facts.

        Raises UnwritablePath, DiskFull.
        """
        batches = [batch for batch in self._batches if batch.batch_id < facts.batch_id]
        batches.append(facts)
        self._earlier = self._earlier.and_those_of(batches[:-KEPT])
        self._batches = batches[-KEPT:]
        self._added += 1
        if self._earlier == BatchFigures():
            self._first = BatchFigures.of(self._batches)
        self.note_rows(facts.batch_id, tables)

    def note_rows(self, batch_id: int, tables: Collection[str]) -> None:
        """Note that the batch brought rows to ``tables``. Raises UnwritablePath, DiskFull."""
        self._written = {**self._written, **dict.fromkeys(tables, batch_id)}
        self._write()

    def accept(self, tables: Collection[str], lineages: Collection[str]) -> None:
        """Forget which rows ``tables`` should have, and accept those of unknown ``lineages``.

        Raises UnwritablePath, DiskFull.
        """
        self._written = {key: batch for key, batch in self._written.items() if key not in tables}
        self._accepted |= set(lineages)
        self._write()

    def _write(self) -> None:
        told: dict[str, Any] = {_EARLIER: self._earlier.to_json(), _FIRST: self._first.to_json()}
        told[_BATCHES] = [batch.to_json() for batch in self._batches]
        told[_WRITTEN] = dict(self._written)
        if self._accepted:
            told[_ACCEPTED] = sorted(self._accepted)
        write_json(self._file, add_stamp(told), durable=False)


def table_key(folder: str | None, table: str) -> str:
    """Name ``table`` in ``folder`` (``sink.path`` as the spec has it), independent of where the home is mounted."""
    return table if folder is None else f"{folder}/{table}"


def _batches_by_table(kept: object) -> dict[str, int]:
    """Read the batches in a file, without values of other types."""
    found = kept if isinstance(kept, dict) else {}
    return {str(key): batch for key, batch in found.items() if type(batch) is int}


def _names(kept: object) -> frozenset[str]:
    return frozenset(map(str, kept)) if isinstance(kept, list) else frozenset()
