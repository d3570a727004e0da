"""``origin.json`` of a lineage: the state that it began with, and whether a rollback is possible.

Written when the lineage is made, before anything else of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from sessionizer.checkpoint.batch_logs import read_last_commit
from sessionizer.errors import NoWayBack
from sessionizer.home.control_store import record_names
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.names import is_identifier
from sessionizer.home.record_file import LineageFile
from sessionizer.lineage.active import require_lineage
from sessionizer.lineage.canary.unstarted import find_change_in_place
from sessionizer.state.lineages.path import Segment

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

NO_BATCH: Final = -1


@dataclass(frozen=True, slots=True)
class Origin(JsonRecord):
    """The origin of a lineage: its ``verb``, its time (epoch ms), the batch it began from, and any savepoint.

    The batch is ``batch_id`` of the lineage ``parent``. A seed takes nothing from a batch (``NO_BATCH``): ``parent`` is
    the lineage that it replaces, if any. ``left``: the lineage that was active before a restore. Other commands leave
    the parent. ``tables``: the newest version of each table before the restore deleted rows, by its location.
    ``path``: to ``parent``, without it, if the home has no record of that one.
    """

    verb: str
    at: Moment
    parent: str | None = None
    batch_id: int = NO_BATCH
    savepoint: str | None = None
    left: str | None = None
    tables: Mapping[str, int] = field(default_factory=dict)
    path: tuple[Segment, ...] = ()

    @property
    def before(self) -> str | None:
        """The lineage that was active before."""
        return self.left or self.parent


class WayBack(NamedTuple):
    """The ``lineage`` that was active before one of this ``origin``. It resumes after ``batch_id``, its newest one."""

    origin: Origin
    lineage: str
    batch_id: int


ORIGIN_FILE: Final = LineageFile("origin.json", Origin)
"""Absent for a lineage that began with no state."""


def origins_of(home: StreamHome) -> dict[str, Origin | None]:
    """Return every lineage that control knows, even without data, with its origin. Raises DamagedFile, OSError."""
    noted = filter(is_identifier, record_names(home.lineage_records))
    return {name: ORIGIN_FILE.of(home, name).require() for name in sorted(noted)}


def list_beginnings(home: StreamHome) -> set[str]:
    """Return the savepoints that a lineage of the stream began with. Raises DamagedFile, OSError."""
    return {origin.savepoint for origin in origins_of(home).values() if origin is not None and origin.savepoint}


def way_back(home: StreamHome, lineage: str) -> WayBack:
    """Return the lineage that was active before ``lineage``, and can resume: its checkpoint is as it was left.

    Its rows are in the tables, or in the versions that the origin names. Raises NoWayBack, DamagedFile.
    """
    origin = ORIGIN_FILE.of(home, lineage).require()
    if origin is None or origin.before is None:
        raise _no_way_back(home, lineage, "it began without the state of another")
    if origin.batch_id == NO_BATCH:
        raise _no_way_back(home, lineage, f"its {origin.verb} deleted all rows of lineage {origin.before}")
    newest = read_last_commit(home.checkpoint(origin.before))
    if newest is None:
        raise _no_way_back(home, lineage, f"the checkpoint of lineage {origin.before} is gone")
    if origin.left is None and newest != origin.batch_id:
        cause = f"lineage {origin.before} had come to batch {newest}, and what it wrote after {origin.batch_id} is gone"
        raise _no_way_back(home, lineage, cause)
    return WayBack(origin, origin.before, newest)


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


def rollback_of(home: StreamHome) -> tuple[WayBack, str]:
    """Return the way back from the active lineage, and that lineage. Raises NothingToSave, NoWayBack."""
    leaves = require_lineage(home)
    return way_back(home, leaves), leaves


def lineage_before(home: StreamHome, lineage: str) -> str | None:
    """Return the lineage that ``way_back`` leads to, None if there is none."""
    try:
        return way_back(home, lineage).lineage
    except NoWayBack:
        return None
