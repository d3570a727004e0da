"""Where a savepoint keeps what it is made of: one directory per savepoint, in a folder that may be anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.home.names import checked_identifier

if TYPE_CHECKING:
    from sessionizer.home.data_root import DataPath

OPEN_EVENTS: Final = "open_events"
GROUP_LOGS: Final = "group_logs"
TIMEOUTS: Final = "timeouts"
SEEN_FILES: Final = "seen_files"
CHECKPOINT: Final = "checkpoint"
"""The parts of a savepoint: four Delta tables; of a native one a copy of the checkpoint's files."""


@dataclass(frozen=True, slots=True)
class SavepointHome:
    """The files of one savepoint, in the directory ``root``, which is named for it."""

    root: DataPath

    @classmethod
    def of(cls, folder: DataPath, savepoint: str) -> SavepointHome:
        """The savepoint of this id in ``folder``; raises InvalidSpec for an id that is no name of a directory."""
        return cls(folder / checked_identifier("savepoint", savepoint))

    @property
    def id(self) -> str:
        """The savepoint's id."""
        return str(self.root.name)

    @property
    def begun(self) -> DataPath:
        """Who makes it, since when, of which batch. The first file of a savepoint, and the last that is removed."""
        return self.root / "begun.json"

    @property
    def manifest(self) -> DataPath:
        """What is in it. Written last: a savepoint without it is not complete."""
        return self.root / "manifest.json"

    @property
    def failed(self) -> DataPath:
        """Why it was not completed."""
        return self.root / "failed.json"

    @property
    def condemned(self) -> DataPath:
        """There once it is to be removed: nobody begins to read it any more."""
        return self.root / "condemned.json"

    @property
    def readers(self) -> DataPath:
        """A file for each who reads it."""
        return self.root / "readers"

    def reader(self, uid: str) -> DataPath:
        """There while ``uid`` reads it."""
        return self.readers / f"{checked_identifier('uid', uid)}.json"

    def part(self, name: str) -> DataPath:
        """The directory of one of its parts."""
        return self.root / name
