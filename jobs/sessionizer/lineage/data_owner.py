"""``owner.json`` in a stream's data: the home of the stream that writes there (docs/adr/0096).

A lease keeps two drivers of one home apart. Two homes with one data root know nothing of each other.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.errors import DamagedFile, DataOwned
from sessionizer.home.data_files import publish_json, read_data, translate_refusal
from sessionizer.home.home_identity import owner_name, require_home_here
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import RecordFile, content_to_store
from sessionizer.home.roots import is_local, uri_of
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE

if TYPE_CHECKING:
    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome

OWNER_FILE: Final = "owner.json"


@dataclass(frozen=True, slots=True)
class DataOwner(JsonRecord):
    """The ``owner`` as tables know it, such as ``clicks@5d1c0f3e9a7b2468``, and where its ``home`` was then."""

    owner: str
    home: str


def require_own_data(home: StreamHome) -> None:
    """Raise DataOwned if the stream's data is marked as another home's.

    If the home itself is the data root, no other home writes there. Raises DamagedFile, ControlUnreachable,
    StoreUnreachable, DiskFull, UnwritablePath.
    """
    if home.data_root is None:
        return
    found, ours = _owner_of(home.data / OWNER_FILE), owner_name(home.name, home.control_base)
    if found is not None and found.owner != ours:
        raise DataOwned(uri_of(home.data), found.owner, found.home, ours)


def require_own_home(home: StreamHome, folder: str | None) -> None:
    """Raise HomeCopied if the stream writes outside of a home that is a copy of another.

    Raises DamagedFile, UnwritablePath.

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


def _place_of(home: StreamHome) -> str:
    """Name the place of the home that has the records, for messages."""
    control = home.control_root
    return f"{home.platform} on {os.uname().nodename}" if control is None or is_local(control) else uri_of(control)


def claim_data(home: StreamHome) -> None:
    """Mark the stream's existing folder of data as that of ``home``. The first home to do so has it.

    Raises DataOwned, DamagedFile, ControlUnreachable, StoreUnreachable, DiskFull, UnwritablePath.
    """
    path = home.data / OWNER_FILE
    if home.data_root is None or _owner_of(path) is not None:
        return
    record = DataOwner(owner_name(home.name, home.control_base), _place_of(home))
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
