"""``lineage.json``: which checkpoint's life is the active one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from sessionizer.errors import DamagedFile, NothingToSave, SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.data_files import list_names, make_data_folder, make_listed_folder, translate_refusal
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.local_files import close_to_others
from sessionizer.home.names import is_identifier, mint_id
from sessionizer.home.record_file import ControlFile, have_folder
from sessionizer.home.roots import data_root, uri_of
from sessionizer.lineage.applied_migrations import begin_applied
from sessionizer.lineage.checkpoint_record import CHECKPOINT_FILE, write_checkpoint_record
from sessionizer.lineage.fingerprint import present_fingerprint, write_fingerprint
from sessionizer.lineage.kept_spec import TYPES_FILE, write_lineage_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.kept_spec import LineageSpec


Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Lineage(JsonRecord):
    """The id of a checkpoint's life, its birth (epoch ms), and the lineage its first state came from.

    ``before``: the lineage that a rollback leads to, None if there is no way back.
    """

    lineage: str
    created_at: Moment
    parent: str | None = None
    before: str | None = None


LINEAGE_FILE: Final = ControlFile("lineage.json", Lineage)


def read_lineage(home: StreamHome) -> Lineage | None:
    """Read the active lineage's record, None if the stream never started. Raises DamagedFile. Reads control only.

    A lost file must not pass for a stream that never started: a driver would start from scratch and emit every session
    again.
    """
    record = LINEAGE_FILE.of(home).require()
    if record is None and _was_active(home):
        raise DamagedFile(
            uri_of(home.lineage_record), "the file is gone, but there are lineages that it must choose from"
        )
    return record


def require_no_history(home: StreamHome) -> None:
    """Raise DamagedFile if Spark ever wrote into a checkpoint of this stream. A driver asks before it begins anew.

    Control may be lost as a whole while the data, in a root of its own, is not. Raises OSError.
    """
    for lineage in filter(is_identifier, list_names(home.lineages)):
        if list_names(checkpoint := home.checkpoint(lineage)):
            raise DamagedFile(
                uri_of(home.lineage_record),
                f"the file is gone, but there are checkpoints such as {uri_of(checkpoint)}",
            )


def active_lineage(home: StreamHome) -> str | None:
    """Return the active lineage's id, None if the stream never started. Raises DamagedFile."""
    record = read_lineage(home)
    return record.lineage if record else None


def require_lineage(home: StreamHome) -> str:
    """Return the active lineage's id. Raises NothingToSave if the stream never started, DamagedFile."""
    lineage = active_lineage(home)
    if lineage is None:
        raise NothingToSave(home.name, "it never ran")
    return lineage


def examine_active(home: StreamHome, read: Callable[[StreamHome, str], Kept | None]) -> Kept | None:
    """Read a record of the active lineage for a command that only reads. None without one. Never raises."""
    try:
        lineage = active_lineage(home)
        return read(home, lineage) if lineage else None
    except SessionizerError:
        return None


def start_lineage(home: StreamHome, parent: str | None = None, *, spec: LineageSpec | None = None) -> str:
    """Make a new lineage the active one. Raises UnwritablePath, DamagedFile.

    Only the holder of the lease may. A crash before the last step leaves a directory that no driver reads.
    """
    lineage = make_lineage(home, spec)
    activate_lineage(home, lineage, parent)
    return lineage


def make_lineage(home: StreamHome, spec: LineageSpec | None) -> str:
    """Make a new lineage's directories, note how it is made, keep its ``spec``.

    No driver reads it before it is active. Raises UnwritablePath, and DamagedFile for a damaged ``home.json``.
    """
    lineage = mint_id(epoch_ms())
    # the data first, because a lineage is found by its data if its maker was killed
    directory = home.checkpoint(lineage)
    try:
        make_data_folder(directory)
        close_to_others(directory.parent)
        directory = home.punctuations(lineage)
        make_listed_folder(directory)
    except OSError as error:
        raise translate_refusal(directory, "a directory of a new lineage", error) from error
    have_folder(home.lineage(lineage).records, "a directory of a new lineage")
    write_checkpoint_record(home, lineage)
    write_fingerprint(home, lineage, present_fingerprint())
    if spec is not None:
        write_lineage_spec(home, lineage, spec)
        begin_applied(home, lineage, spec)
    return lineage


def activate_lineage(home: StreamHome, lineage: str, parent: str | None, before: str | None = None) -> None:
    """Make ``lineage`` the one that drivers resume. Only the holder of the lease may. Raises UnwritablePath."""
    LINEAGE_FILE.of(home).write(Lineage(lineage, epoch_ms(), parent, before))


def _was_active(home: StreamHome) -> bool:
    """Whether a driver ever prepared the query of a lineage. Such a lineage then became the active one."""
    records = home.lineage_records
    return any(Store(records / name / TYPES_FILE.name).exists() for name in record_names(records))


def locate_data(home: StreamHome) -> StreamHome:
    """Return the home with the data root of the active lineage, or unchanged if none is known. Opens no data."""
    try:
        lineage = active_lineage(home)
        record = CHECKPOINT_FILE.of(home, lineage).require() if lineage else None
    except SessionizerError:
        return home
    return home if record is None else replace(home, data_root=data_root(record.data, home.platform))


def note_moved_data(home: StreamHome) -> str | None:
    """Note that the data of the active lineage is in the data root of ``home`` now. Return the lineage.

    Raises DamagedFile, UnwritablePath.
    """
    lineage = active_lineage(home)
    record = CHECKPOINT_FILE.of(home, lineage).require() if lineage else None
    if lineage is None or record is None:
        return None
    data = None if home.data_root is None else uri_of(home.data_root)
    CHECKPOINT_FILE.of(home, lineage).write(replace(record, data=data))
    return lineage
