"""Records of notifications, so that a check every five minutes does not repeat them every five minutes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.errors import SessionizerError
from sessionizer.home.control_store import remove
from sessionizer.home.json_file import read_record, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, kw_only=True, slots=True)
class ToldOf(JsonRecord):
    """The driver, or the command, ``uid`` of which a notification was sent."""

    uid: str | None = None


@dataclass(frozen=True)
class OnceToldFile:
    """The record by which a notification is sent only once for a stream's driver, or command, in condition ``name``."""

    name: str

    def is_news(self, home: StreamHome, uid: str | None) -> bool:
        """Whether no notification of ``uid`` was sent yet. From now on it counts as sent."""
        told = read_record(ToldOf, home.control_files.told(self.name))
        if told is not None and told.uid == uid:
            return False
        with suppress(SessionizerError):
            write_record(home.control_files.told(self.name), ToldOf(uid=uid))
        return True

    def forget(self, home: StreamHome) -> None:
        """Forget the notification, because all is well. If the condition returns, it is news."""
        with suppress(OSError):
            remove(home.control_files.told(self.name))


TOLD_OF_ORPHAN: Final = OnceToldFile("orphan")
TOLD_OF_UNWATCHED: Final = OnceToldFile("unwatched")
TOLD_OF_STUCK: Final = OnceToldFile("stuck")
