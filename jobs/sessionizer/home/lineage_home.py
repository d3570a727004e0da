"""The places of a lineage's checkpoint and of its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath
    from sessionizer.home.data_root import DataPath


ANNOUNCED_TIMEOUTS: Final = "announced_timeouts.json"
LEFT_OUT: Final = "left_out.json"
CHECKPOINT_RECORD: Final = "checkpoint.json"
MIGRATIONS: Final = "migrations.json"
SOURCE_IDS: Final = "source.json"
TYPES: Final = "types.json"


@dataclass(frozen=True, slots=True)
class LineageHome:
    """The files of one checkpoint's life: the query's files in ``root``, the ``records`` in control.

    Both directories have the lineage's name.
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
        """The record of the checkpoint's settings and its owner."""
        return self.records / CHECKPOINT_RECORD

    @property
    def fingerprint(self) -> ControlPath:
        """The release, the code and the versions that it runs by."""
        return self.records / "fingerprint.json"

    @property
    def migrations(self) -> ControlPath:
        """The migrations that its open events have had."""
        return self.records / MIGRATIONS

    @property
    def drained(self) -> ControlPath:
        """The marker of a lineage whose sessions are closed for good, or are being closed."""
        return self.records / "drained.json"

    @property
    def open_sessions(self) -> ControlPath:
        """The number of open sessions of each key group, and when they end."""
        return self.records / "open_sessions.json"

    @property
    def unreadable_files(self) -> ControlPath:
        """The files of the source that the query skips because they are unreadable."""
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
        """The timeouts of clients that the query announced."""
        return self.records / ANNOUNCED_TIMEOUTS

    @property
    def origin(self) -> ControlPath:
        """The origin of its first state. A lineage that began without state has no such file."""
        return self.records / "origin.json"

    @property
    def batches(self) -> ControlPath:
        """The results of its newest batches."""
        return self.records / "batches.json"

    @property
    def table_changes(self) -> ControlPath:
        """The changes of its tables that other writers made."""
        return self.records / "table_changes.json"

    @property
    def trial(self) -> ControlPath:
        """The record of its trial. A lineage that no command made has no such file."""
        return self.records / "trial.json"

    @property
    def no_events(self) -> DataPath:
        """An empty folder, which the first batch of the lineage reads in place of its source."""
        return self.root / "no_events"

    @property
    def first_log(self) -> DataPath:
        """The log with which the first batch of the lineage fills its key groups, until it was read back."""
        return self.root / "first_log"

    @property
    def rehearsal(self) -> DataPath:
        """A table that a driver makes and deletes, so that Delta's code is warm at a real table's first checkpoint."""
        return self.root / "rehearsal"


def offset_log(checkpoint: DataPath) -> DataPath:
    """Return Spark's log of the batches whose input is settled: a file for each, named by its number."""
    return checkpoint / "offsets"


def commit_log(checkpoint: DataPath) -> DataPath:
    """Return Spark's log of the committed batches."""
    return checkpoint / "commits"


def source_log(checkpoint: DataPath, source: str) -> DataPath:
    """Return Spark's log of the ``source``, given by its place in the query or its name: a file source's files."""
    return checkpoint / "sources" / source
