"""``table_changes.json`` of a lineage: the checked version of each table, and the foreign changes that were found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.home.json_record import add_stamp, require_known_format
from sessionizer.home.record_file import read_json, write_json
from sessionizer.lineage.active import examine_active
from sessionizer.state.lineages.table_changes import TableChange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.roots import ControlPath
    from sessionizer.home.stream_home import StreamHome

KEPT: Final = 5
"""Changes that are kept for `status`."""
_LOOKED, _CHANGES = "looked", "changes"


class NotifiedChanges:
    """Foreign changes that the driver saves, so that the next one reports only later changes."""

    def __init__(self, file: ControlPath) -> None:
        """Read the file. One that cannot be read counts as none. Raises DamagedFile for a file of a newer release."""
        self._file = file
        kept = read_json(file) or {}
        require_known_format(file, kept)
        try:
            self._looked = {str(place): int(version) for place, version in kept.get(_LOOKED, {}).items()}
            self._changes = tuple(TableChange.from_json(change) for change in kept.get(_CHANGES, []))
        except (AttributeError, TypeError, ValueError):
            self._looked, self._changes = {}, ()

    @property
    def changes(self) -> tuple[TableChange, ...]:
        """The newest changes, oldest first."""
        return self._changes

    def looked(self, table: str) -> int | None:
        """Return the version up to which the table at that place was checked, None for a new table."""
        return self._looked.get(table)

    def note(self, looked: Mapping[str, int], changes: list[TableChange]) -> None:
        """Note how far the tables were looked at, and the changes found. Raises UnwritablePath, DiskFull."""
        if not changes and self._looked.items() >= looked.items():
            return
        self._looked.update(looked)
        self._changes = (*self._changes, *changes)[-KEPT:]
        told = {_LOOKED: self._looked, _CHANGES: [change.to_json() for change in self._changes]}
        write_json(self._file, add_stamp(told), durable=False)


def changes_of_active(home: StreamHome) -> tuple[TableChange, ...]:
    """Read the foreign changes in the active lineage's tables for a command that only reads. Never raises."""
    told = examine_active(home, lambda home, lineage: NotifiedChanges(home.lineage(lineage).table_changes))
    return told.changes if told else ()
