"""What people have been told already, so that a look every five minutes does not tell it every five minutes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.errors import SessionizerError
from sessionizer.home.atomic_file import write_json
from sessionizer.home.json_record import JsonRecord, read_record

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, kw_only=True, slots=True)
class ToldOf(JsonRecord):
    """People have been told of the driver `uid`."""

    uid: str | None = None


@dataclass(frozen=True)
class OnceToldFile:
    """The file `name` in the control directory of a stream, about its driver."""

    name: str

    def is_news(self, home: StreamHome, uid: str | None) -> bool:
        """Whether people do not know of this driver yet; from now on they do."""
        told = read_record(ToldOf, home.control / self.name)
        if told is not None and told.uid == uid:
            return False
        with suppress(SessionizerError):
            write_json(home.control / self.name, ToldOf(uid=uid).to_json())
        return True

    def forget(self, home: StreamHome) -> None:
        """All is well: should it happen once more, that is news."""
        with suppress(OSError):
            (home.control / self.name).unlink(missing_ok=True)
