"""Where a lineage keeps its checkpoint, and what is noted of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath
    from sessionizer.home.data_root import DataPath


ANNOUNCED_TIMEOUTS: Final = "announced_timeouts.json"
LEFT_OUT: Final = "left_out.json"
CHECKPOINT_RECORD: Final = "checkpoint.json"
SOURCE_IDS: Final = "source.json"
TYPES: Final = "types.json"


@dataclass(frozen=True, slots=True)
class LineageHome:
    """The files of one checkpoint's life: what the query reads and writes in ``root``, the ``records`` in control.

    Both directories are named for it.
    """

    root: DataPath
    records: ControlPath

    @property
    def checkpoint(self) -> DataPath:
        """Spark's checkpoint location."""
        return self.root / "checkpoint"

    @property
    def punctuations(self) -> DataPath:
        """The folder of control rows that the query reads as a source."""
        return self.root / "punctuations"

    @property
    def spec(self) -> ControlPath:
        """The whole spec that the lineage runs by."""
        return self.records / "spec.json"

    @property
    def types(self) -> ControlPath:
        """Every type that each payload column ever had."""
        return self.records / TYPES

    @property
    def checkpoint_record(self) -> ControlPath:
        """How the checkpoint is made, and whose it is."""
        return self.records / CHECKPOINT_RECORD

    @property
    def drained(self) -> ControlPath:
        """There once its sessions are, or are being, closed for good."""
        return self.records / "drained.json"

    @property
    def open_sessions(self) -> ControlPath:
        """How many sessions are open in each key group, and until when."""
        return self.records / "open_sessions.json"

    @property
    def unreadable_files(self) -> ControlPath:
        """The files of the source that are left out."""
        return self.records / "unreadable_files.json"

    @property
    def left_out(self) -> ControlPath:
        """The ranges of the source whose rows are quarantined, if any are."""
        return self.records / LEFT_OUT

    @property
    def source_ids(self) -> ControlPath:
        """Which topics it has positions in, by their ids."""
        return self.records / SOURCE_IDS

    @property
    def announced_timeouts(self) -> ControlPath:
        """The timeouts of clients that were passed on."""
        return self.records / ANNOUNCED_TIMEOUTS

    @property
    def origin(self) -> ControlPath:
        """Where its first state came from; a lineage that began with none has no such file."""
        return self.records / "origin.json"

    @property
    def batches(self) -> ControlPath:
        """What its newest batches did."""
        return self.records / "batches.json"

    @property
    def table_changes(self) -> ControlPath:
        """The changes of its tables that others made."""
        return self.records / "table_changes.json"

    @property
    def trial(self) -> ControlPath:
        """What it is on trial for; one that no verb made has no such file."""
        return self.records / "trial.json"

    @property
    def no_events(self) -> DataPath:
        """An empty folder: what the batch that begins the lineage reads in place of its source."""
        return self.root / "no_events"

    @property
    def first_log(self) -> DataPath:
        """What the batch that begins the lineage gives its key groups, until it was read back."""
        return self.root / "first_log"

    @property
    def rehearsal(self) -> DataPath:
        """A table that a driver makes and removes, so that the first checkpoint of a real one finds its code ready."""
        return self.root / "rehearsal"


def offset_log(checkpoint: DataPath) -> DataPath:
    """Spark's log of the batches whose input is settled: a file for each, named by its number."""
    return checkpoint / "offsets"


def commit_log(checkpoint: DataPath) -> DataPath:
    """Spark's log of the batches that are over."""
    return checkpoint / "commits"


def source_log(checkpoint: DataPath, source: str) -> DataPath:
    """What Spark notes of the ``source``, called by its place in the query or its name: of a file source its files."""
    return checkpoint / "sources" / source
