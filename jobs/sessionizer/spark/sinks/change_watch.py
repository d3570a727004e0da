"""Watch for rows that another program adds to a stream's tables, deletes or changes: reported, not refused.

Only the files of the tables' logs are read. A table at a URI that no file system here can read is not watched.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sessionizer.errors import ControlUnreachable, DiskFull, InvalidSpec, StoreUnreachable, UnwritablePath
from sessionizer.home.data_files import newest_version
from sessionizer.home.roots import folder_at
from sessionizer.state.lineages.origin import origins_of
from sessionizer.state.lineages.table_changes import list_changes_after
from sessionizer.state.lineages.table_changes_record import NotifiedChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.lineages.table_changes import TableChange

EVERY_S: Final = 60.0


class ChangeWatch:
    """A look at the ``tables`` (name to location) of ``lineage`` once a minute. ``say`` gets a line for each change."""

    def __init__(self, home: StreamHome, lineage: str, tables: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._told, self._tables, self._say = NotifiedChanges(home.lineage(lineage).table_changes), tables, say
        self._ours = {*origins_of(home), lineage}
        self._next_look, self._is_first = 0.0, True

    @property
    def is_due(self) -> bool:
        """Whether it is time for a look."""
        return time.monotonic() >= self._next_look

    def look(self) -> None:
        """Look at the tables if it is time. An unreadable table is tried again the next time."""
        if self.is_due:
            self.look_now()

    def look_now(self) -> None:
        """Look at the tables."""
        self._next_look = time.monotonic() + EVERY_S
        looked, changes = dict[str, int](), list["TableChange"]()
        for name, location in self._tables.items():
            with suppress(InvalidSpec, StoreUnreachable, OSError, ValueError, ImportError):
                table = folder_at(location)
                version, found = self._found(table, name, self._told.looked(location))
                changes += found
                if version is not None:
                    looked[location] = version
        for change in changes:
            self._say(f"not by this stream: {change}")
        with suppress(UnwritablePath, DiskFull, ControlUnreachable):
            self._told.note(looked, changes)
            self._is_first = False

    def _found(self, table: DataPath, name: str, version: int | None) -> tuple[int | None, list[TableChange]]:
        if version is None:
            return newest_version(table), []  # the past of a table is not looked at
        return list_changes_after(table, name, version, self._ours, cut=self._is_first)
