"""The places of a lineage's checkpoint and of its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.home.roots import ControlPath, DataPath


ANNOUNCED_TIMEOUTS: Final = "announced_timeouts.json"
CHECKPOINT_RECORD: Final = "checkpoint.json"


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
    def open_sessions(self) -> ControlPath:
        """The number of open sessions of each key group, and when they end."""
        return self.records / "open_sessions.json"

    @property
    def unreadable_files(self) -> ControlPath:
        """The files of the source that the query skips because they are unreadable."""
        return self.records / "unreadable_files.json"

    @property
    def schema_ids(self) -> ControlPath:
        """The ids in values that the registry is asked for, beside those of its subject."""
        return self.records / "schema_ids.json"

    @property
    def announced_timeouts(self) -> ControlPath:
        """The timeouts of clients that the query announced."""
        return self.records / ANNOUNCED_TIMEOUTS

    @property
    def batches(self) -> ControlPath:
        """The results of its newest batches."""
        return self.records / "batches.json"

    @property
    def table_changes(self) -> ControlPath:
        """The changes of its tables that other writers made."""
        return self.records / "table_changes.json"

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
