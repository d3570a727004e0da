"""How many sessions are open: each key group says so when it merges, the driver adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.atomic_file import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class OpenSessions:
    """Open sessions per key group as of its last merge, kept beside the checkpoint so that a restart knows them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._of_group: dict[str, int] = {str(group): int(count) for group, count in (read_json(file) or {}).items()}

    @property
    def total(self) -> int:
        """Open sessions of all groups."""
        return sum(self._of_group.values())

    def learn(self, merged: Mapping[int, int]) -> None:
        """Take over what the groups that merged in this batch said."""
        if merged:
            self._of_group |= {str(group): count for group, count in merged.items()}
            write_json(self._file, self._of_group, durable=False)
