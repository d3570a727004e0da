"""Marker files of a savepoint: ``begun.json``, ``failed.json``, ``condemned.json`` and a mark for each reader."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sessionizer.control.records.process_records import ProcessIdentity, this_process
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import (
    data_exists,
    examine_data_json,
    list_entries,
    make_private_data,
    publish_json,
    remove_data,
    translate_refusal,
)
from sessionizer.home.json_record import JsonRecord, Moment, add_stamp, unknown_format
from sessionizer.home.names import mint_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import SavepointHome


@dataclass(frozen=True, slots=True)
class UseMark(JsonRecord):
    """A process that makes or reads a savepoint since ``at`` (epoch ms). ``why``: as the user gave it."""

    at: Moment
    why: str
    pid: int
    host: str
    process_started: int | None = None
    boot_id: str | None = None
    pid_namespace: str | None = None

    @classmethod
    def now(cls, why: str) -> Self:
        """Describe this process."""
        us = this_process()
        return cls(epoch_ms(), why, us.pid, us.host, us.started, us.boot_id, us.namespace)

    @property
    def process(self) -> ProcessIdentity:
        """Identity of the process."""
        return ProcessIdentity(self.pid, self.process_started, self.host, self.boot_id, self.pid_namespace)


@dataclass(frozen=True, slots=True)
class SavepointFailure(JsonRecord):
    """The cause why a savepoint was not completed."""

    at: Moment
    cause: str


@dataclass(frozen=True, slots=True)
class RemovalMark(JsonRecord):
    """A savepoint that is being removed since ``at`` (epoch ms)."""

    at: Moment


def write_data_record(path: DataPath, record: JsonRecord) -> None:
    """Write ``record`` with its format and its writer, and make its folder.

    Raises ControlUnreachable, StoreUnreachable, DiskFull, UnwritablePath.
    """
    try:
        make_private_data(path.parent)
    except OSError as error:
        raise translate_refusal(path.parent, "a savepoint", error) from error
    publish_json(path, add_stamp(record.to_json(), record.FORMAT))


def read_use_mark(path: DataPath) -> UseMark | None:
    """Read the process that makes or reads the savepoint, None if the file is absent or damaged."""
    value = examine_data_json(path).value
    if value is None or unknown_format(value) is not None:
        return None
    try:
        return UseMark.from_json(value)
    except ValueError:
        return None


def read_failure(home: SavepointHome) -> SavepointFailure | None:
    """Read the cause of a failure, None if none is recorded."""
    value = examine_data_json(home.failed).value
    return (
        None
        if value is None
        else SavepointFailure(int(value.get("at") or 0), str(value.get("cause") or "it does not say"))
    )


def readers_of(home: SavepointHome) -> list[UseMark]:
    """Return the processes that marked themselves as readers. Some may be dead by now. Raises OSError."""
    found = (read_use_mark(file) for file in list_entries(home.readers))
    return [each for each in found if each is not None]


@contextmanager
def keep_from_removal(home: SavepointHome, why: str) -> Iterator[None]:
    """Keep the savepoint from being removed during the block. Raises UnusableSavepoint if a removal has begun.

    The reader writes its mark first and looks for a removal afterwards. The remover does it the other way round. So one
    of the two sees the other, whatever the moment.
    """
    mark = home.reader(mint_id(epoch_ms()))
    write_data_record(mark, UseMark.now(why))
    try:
        if data_exists(home.condemned):
            raise UnusableSavepoint(home.id, "it is being removed")
        yield
    finally:
        remove_data(mark)
