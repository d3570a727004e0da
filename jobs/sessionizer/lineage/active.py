"""Active lineage of a stream, the owner of its data, and its drain.

``owner.json`` in a stream's data names the home of the stream that writes there (docs/adr/0096), because two homes with
one data root know nothing of each other.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from sessionizer.checkpoint.log_entries import read_last_commit
from sessionizer.errors import DamagedFile, DataOwned, NothingToSave, SessionizerError, StreamDrained
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.data_files import (
    list_names,
    make_data_folder,
    make_listed_folder,
    publish_json,
    read_data,
    translate_refusal,
)
from sessionizer.home.home_identity import owner_name, require_home_here
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.local_files import close_to_others
from sessionizer.home.names import is_identifier, mint_id
from sessionizer.home.record_file import ControlFile, LineageFile, RecordFile, content_to_store, have_folder
from sessionizer.home.roots import DataPath, data_root, is_local, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.fingerprint import CHECKPOINT_FILE, present_fingerprint, record_of, write_fingerprint
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, LineageSpec, begin_applied, write_lineage_spec

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Lineage(JsonRecord):
    """A lineage, its birth (epoch ms), its first state's lineage, and the one ``before`` to which a rollback leads."""

    lineage: str
    created_at: Moment
    parent: str | None = None
    before: str | None = None


LINEAGE_FILE: Final = ControlFile("lineage.json", Lineage)


def read_lineage(home: StreamHome) -> Lineage | None:
    """Read the active lineage's record, None if the stream never started. Raises DamagedFile if the file is lost."""
    file, records = LINEAGE_FILE.of(home), home.lineage_records
    if (record := file.require()) is not None:
        return record
    # a driver prepares the query of a lineage after it became the active one
    if not any(Store(records / name / TYPES_FILE.name).exists() for name in record_names(records)):
        return None
    if (record := file.require()) is not None:  # the first driver has begun meanwhile
        return record
    damage = "the file is gone, but there are lineages that it must choose from"
    raise DamagedFile(uri_of(home.lineage_record), damage)


def require_no_history(home: StreamHome) -> None:
    """Raise DamagedFile if a checkpoint has files and control was lost, before a driver begins. Raises OSError."""
    for lineage in filter(is_identifier, list_names(home.lineages)):
        if list_names(checkpoint := home.checkpoint(lineage)):
            damage = f"the file is gone, but there are checkpoints such as {uri_of(checkpoint)}"
            raise DamagedFile(uri_of(home.lineage_record), damage)


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
    """Make a new lineage the active one, as holder of the lease. Raises UnwritablePath, DamagedFile."""
    lineage = make_lineage(home, spec)
    activate_lineage(home, lineage, parent)
    return lineage


def make_lineage(home: StreamHome, spec: LineageSpec | None, lineage: str = "") -> str:
    """Make a lineage's folders and records. No driver reads it before it is active.

    Raises UnwritablePath, DamagedFile.
    """
    lineage = lineage or mint_id(epoch_ms())
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
    CHECKPOINT_FILE.of(home, lineage).write(record_of(home))  # never again
    write_fingerprint(home, lineage, present_fingerprint())
    if spec is not None:
        write_lineage_spec(home, lineage, spec)
        begin_applied(home, lineage, spec)
    return lineage


def activate_lineage(home: StreamHome, lineage: str, parent: str | None, before: str | None = None) -> None:
    """Make ``lineage`` the one that drivers resume. Only the holder of the lease may. Raises UnwritablePath."""
    LINEAGE_FILE.of(home).write(Lineage(lineage, epoch_ms(), parent, before))


def remove_way_back(home: StreamHome) -> None:
    """Note that no rollback leads to the lineage before, because its checkpoint is removed. Raises UnwritablePath."""
    active = read_lineage(home)
    if active is not None and active.before is not None:
        LINEAGE_FILE.of(home).write(replace(active, before=None))


def locate_data(home: StreamHome) -> StreamHome:
    """Return the home with the data root of the active lineage, or unchanged if none is known. Opens no data."""
    try:
        lineage = active_lineage(home)
        record = CHECKPOINT_FILE.of(home, lineage).require() if lineage else None
    except SessionizerError:
        return home
    return home if record is None else replace(home, data_root=data_root(record.data, home.platform))


def note_moved_data(home: StreamHome) -> str | None:
    """Note that the active lineage's data is in the data root of ``home`` now. Raises DamagedFile, UnwritablePath."""
    lineage = active_lineage(home)
    record = CHECKPOINT_FILE.of(home, lineage).require() if lineage else None
    if lineage is None or record is None:
        return None
    data = None if home.data_root is None else uri_of(home.data_root)
    CHECKPOINT_FILE.of(home, lineage).write(replace(record, data=data))
    return lineage


OWNER_FILE: Final = "owner.json"


@dataclass(frozen=True, slots=True)
class DataOwner(JsonRecord):
    """The ``owner`` as tables know it, such as ``clicks@5d1c0f3e9a7b2468``, and where its ``home`` was then."""

    owner: str
    home: str


def require_own_data(home: StreamHome) -> None:
    """Raise DataOwned if the data root has the stream's data as another home's.

    Raises DamagedFile, ControlUnreachable, StoreUnreachable, DiskFull, UnwritablePath.
    """
    if home.data_root is None:
        return
    found, ours = _owner_of(home.data / OWNER_FILE), owner_name(home.name, home.control_base)
    if found is not None and found.owner != ours:
        raise DataOwned(uri_of(home.data), found.owner, found.home, ours)


def require_own_home(home: StreamHome, folder: str | None) -> None:
    """Raise HomeCopied if the stream writes outside of a home that is a copy. Raises DamagedFile, UnwritablePath.

    ``folder``: ``sink.path`` of its spec. A home with all of its data in it may be copied: nothing is written twice.
    """
    places = [uri_of(home.data), *home.table_locations(folder).values()]
    if any(not place.startswith(f"{uri_of(home.control_base)}/") for place in places):
        require_home_here(home.control_base)


def require_own_home_of_lineage(home: StreamHome) -> None:
    """Raise HomeCopied by the spec of the active lineage, if there is one. Raises DamagedFile."""
    lineage = active_lineage(home)
    record = SPEC_FILE.of(home, lineage).require() if lineage else None
    require_own_home(home, record.document["sink"]["path"] if record else None)


def claim_data(home: StreamHome) -> None:
    """Mark the stream's existing data as that of ``home``, if no home has it.

    Raises DataOwned, DamagedFile, StoreUnreachable, DiskFull, UnwritablePath.
    """
    path = home.data / OWNER_FILE
    if home.data_root is None or _owner_of(path) is not None:
        return
    control, host = home.control_root, os.uname().nodename
    place = f"{home.platform} on {host}" if control is None or is_local(control) else uri_of(control)
    record = DataOwner(owner_name(home.name, home.control_base), place)
    if isinstance(path, Path):
        RecordFile(path, DataOwner).create(record)
    else:
        publish_json(path, content_to_store(record))
    require_own_data(home)  # another may have come first


def _owner_of(path: DataPath) -> DataOwner | None:
    try:
        return DataOwner.from_json(json.loads(read_data(path)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise translate_refusal(path, "the owner of the stream's data", error) from error
    except (ValueError, AttributeError) as error:
        raise DamagedFile(uri_of(path), str(error)) from error


@dataclass(frozen=True, slots=True)
class DrainRecord(JsonRecord):
    """Times (epoch ms) of a drain and its last ``batch_id``. Without ``over_at`` the next run finishes it."""

    begun_at: Moment
    over_at: Moment | None = None
    batch_id: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether every session is closed, and the batch that closed the last one is committed."""
        return self.over_at is not None

    @property
    def moment(self) -> str:
        """Moment at which it was over, or else begun, in UTC."""
        return f"{datetime.fromtimestamp((self.over_at or self.begun_at) / 1000, UTC):%Y-%m-%d %H:%M} UTC"


DRAINED_FILE: Final = LineageFile("drained.json", DrainRecord)


def begin_drain(home: StreamHome, lineage: str) -> None:
    """Record the drain before the punctuation that closes everything: from then on there is no way back."""
    file = DRAINED_FILE.of(home, lineage)
    if file.require() is None:
        file.write(DrainRecord(epoch_ms()))


def end_drain(home: StreamHome, lineage: str) -> None:
    """Record that every session is closed and that the batch that closed the last one is committed."""
    file, batch_id = DRAINED_FILE.of(home, lineage), read_last_commit(home.checkpoint(lineage))
    file.write(replace(file.require() or DrainRecord(epoch_ms()), over_at=epoch_ms(), batch_id=batch_id))


def require_not_drained(home: StreamHome) -> None:
    """Raise StreamDrained if the active lineage is over. Raises DamagedFile."""
    lineage = active_lineage(home)
    drain = DRAINED_FILE.of(home, lineage).require() if lineage else None
    if lineage is not None and drain is not None and drain.is_over:
        raise StreamDrained(home.name, lineage, drain.batch_id, drain.moment)


def examine_drain(home: StreamHome) -> DrainRecord | None:
    """Read the record of the active lineage for a command that only reads. Never raises."""
    return examine_active(home, lambda home, lineage: DRAINED_FILE.of(home, lineage).require())
