"""``origin.json`` of a lineage: the state that it began with, and whether a rollback is possible.

Written when the lineage is made, before anything else of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.batch_logs import read_last_commit
from sessionizer.errors import NoWayBack
from sessionizer.home.control_store import record_names
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.names import is_identifier
from sessionizer.home.record_file import LineageFile
from sessionizer.lineage.active import active_lineage, require_lineage
from sessionizer.lineage.canary.unstarted import find_change_in_place

if TYPE_CHECKING:
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome

NO_BATCH: Final = -1


@dataclass(frozen=True, slots=True)
class Origin(JsonRecord):
    """The origin of a lineage: its ``verb``, its time (epoch ms), the batch it began from, and any savepoint.

    The batch is ``batch_id`` of the lineage ``parent``. A seed takes nothing from a batch (``NO_BATCH``): ``parent`` is
    the lineage that it replaces, if any.
    """

    verb: str
    at: Moment
    parent: str | None = None
    batch_id: int = NO_BATCH
    savepoint: str | None = None


ORIGIN_FILE: Final = LineageFile("origin.json", Origin)
"""Absent for a lineage that began with no state."""


def find_activated_lineage(home: StreamHome, record: OperationRecord) -> str | None:
    """Return the operation's new lineage if a killed run of it has made that one active already."""
    active = active_lineage(home)
    origin = ORIGIN_FILE.of(home, active).require() if active else None
    if origin is None or origin.at < record.begun_at or origin.verb != record.verb:
        return None
    return active if (origin.savepoint or "") == record.savepoint else None


def origins_of(home: StreamHome) -> dict[str, Origin | None]:
    """Return every lineage that control knows, even without data, with its origin. Raises DamagedFile, OSError."""
    noted = filter(is_identifier, record_names(home.lineage_records))
    return {name: ORIGIN_FILE.of(home, name).require() for name in sorted(noted)}


def parents_of(home: StreamHome) -> dict[str, str | None]:
    """Return every lineage of the stream with the one its first state came from. Raises DamagedFile, OSError."""
    return {name: origin.parent if origin is not None else None for name, origin in origins_of(home).items()}


def list_beginnings(home: StreamHome) -> set[str]:
    """Return the savepoints that a lineage of the stream began with. Raises DamagedFile, OSError."""
    return {origin.savepoint for origin in origins_of(home).values() if origin is not None and origin.savepoint}


def way_back(home: StreamHome, lineage: str) -> tuple[Origin, str]:
    """Return the origin of ``lineage`` and the lineage before it, which can resume.

    Its checkpoint is unchanged, and its rows are still there. Raises NoWayBack, DamagedFile.
    """
    origin = ORIGIN_FILE.of(home, lineage).require()
    if origin is None or origin.parent is None:
        raise _no_way_back(home, lineage, "it began without the state of another")
    if origin.batch_id == NO_BATCH:
        raise _no_way_back(home, lineage, f"its {origin.verb} deleted all rows of lineage {origin.parent}")
    newest = read_last_commit(home.checkpoint(origin.parent))
    if newest is None:
        raise _no_way_back(home, lineage, f"the checkpoint of lineage {origin.parent} is gone")
    if newest != origin.batch_id:
        cause = f"lineage {origin.parent} had come to batch {newest}, and what it wrote after {origin.batch_id} is gone"
        raise _no_way_back(home, lineage, cause)
    return origin, origin.parent


def _no_way_back(home: StreamHome, lineage: str, cause: str) -> NoWayBack:
    """Return the error, with the way to undo a change in place, which may be all that the user wants."""
    return NoWayBack(home.name, lineage, ". ".join((cause, *undo_in_place(home, lineage))))


def undo_in_place(home: StreamHome, lineage: str) -> list[str]:
    """Say how to undo the newest command, if it changed ``lineage`` in place: no rollback does."""
    found = find_change_in_place(home, lineage)
    if found is None:
        return []
    change, savepoint = found
    return [f"To undo the {change.verb} in place: `sessionizer restore {home.name} {savepoint}`"]


def rollback_of(home: StreamHome) -> tuple[Origin, str, str]:
    """Return the active lineage's origin, the lineage before it, and itself. Raises NothingToSave, NoWayBack."""
    leaves = require_lineage(home)
    return *way_back(home, leaves), leaves


def lineage_before(home: StreamHome, lineage: str) -> str | None:
    """Return the lineage that ``way_back`` leads to, None if there is none."""
    try:
        return way_back(home, lineage)[1]
    except NoWayBack:
        return None
