"""The files of a savepoint: one directory per savepoint, in a folder that may be anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.home.names import check_identifier

if TYPE_CHECKING:
    from sessionizer.home.roots import DataPath

OPEN_EVENTS: Final = "open_events"
GROUP_LOGS: Final = "group_logs"
TIMEOUTS: Final = "timeouts"
SEEN_FILES: Final = "seen_files"
CHECKPOINT: Final = "checkpoint"
"""The parts of a savepoint: four Delta tables, or for a native one a copy of the checkpoint's files."""


@dataclass(frozen=True, slots=True)
class SavepointHome:
    """The files of one savepoint, in the directory ``root``, which is named for it."""

    root: DataPath

    @classmethod
    def of(cls, folder: DataPath, savepoint: str) -> SavepointHome:
        """Return the savepoint with this id in ``folder``. Raises InvalidSpec if the id is no valid directory name."""
        return cls(folder / check_identifier("savepoint", savepoint))

    @property
    def id(self) -> str:
        """The savepoint's id."""
        return str(self.root.name)

    @property
    def begun(self) -> DataPath:
        """The record of its maker, start and batch: the first file of a savepoint, and the last to be deleted."""
        return self.root / "begun.json"

    @property
    def manifest(self) -> DataPath:
        """The list of its contents. Written last: a savepoint without it is not complete."""
        return self.root / "manifest.json"

    @property
    def failed(self) -> DataPath:
        """The reason why it was not completed."""
        return self.root / "failed.json"

    @property
    def condemned(self) -> DataPath:
        """The marker of a savepoint to be deleted: no reader may begin to read it."""
        return self.root / "condemned.json"

    @property
    def readers(self) -> DataPath:
        """The folder with a file for each reader."""
        return self.root / "readers"

    def reader(self, uid: str) -> DataPath:
        """Return the marker that exists while ``uid`` reads the savepoint."""
        return self.readers / f"{check_identifier('uid', uid)}.json"

    def part(self, name: str) -> DataPath:
        """Return the directory of one of its parts."""
        return self.root / name
