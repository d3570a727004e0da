"""Origin of a lineage: the state that it began with, its path of batches, the way back, and lineages left half-made.

A lineage begins after a batch of its parent. So the state of a lineage stands for a path: the oldest lineage up to the
batch where the next one began, and so on. Every row of a table names its lineage and batch. Each command keeps one
invariant: when it ends, the tables hold exactly the rows on the path of the active lineage (docs/adr/0136).

``origin.json`` is written when the lineage is made, before anything else of it. No driver reads a lineage that a killed
command left half-made, and the next command that makes a lineage removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from sessionizer.checkpoint.log_entries import read_begun_batch, read_last_commit
from sessionizer.control.records.operation_record import pending_operation, read_operations
from sessionizer.errors import NoWayBack
from sessionizer.home.control_store import record_names
from sessionizer.home.data_files import list_entries, list_names, remove_tree
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.names import is_identifier
from sessionizer.home.record_file import LineageFile
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, require_lineage
from sessionizer.lineage.canary.canary_record import find_change_in_place, read_canary
from sessionizer.lineage.kept_spec import TYPES_FILE

BEFORE_THE_FIRST: Final = -1


@dataclass(frozen=True, slots=True)
class Segment(JsonRecord):
    """The batches of ``lineage`` up to and with ``until``. None means all of them, also future ones."""

    lineage: str
    until: int | None = None

    def __str__(self) -> str:
        """Format the segment for a record."""
        return self.lineage if self.until is None else f"{self.lineage}:{self.until}"


Path: TypeAlias = tuple[Segment, ...]
"""Oldest lineage first; no lineage occurs twice."""

NO_ROWS: Final[Path] = ()
"""The path of a stream that begins anew."""


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The batches of ``lineage`` after ``after``, up to and with ``until``. None means all later ones."""

    lineage: str
    after: int
    until: int | None

    def has(self, batch_id: int) -> bool:
        """Whether the batch is one of them."""
        return self.after < batch_id and (self.until is None or batch_id <= self.until)


def path_to(lineage: str, until: int | None, origins: Mapping[str, Origin | None]) -> Path:
    """Return the path that ends with ``lineage`` after its batch ``until``. None means after its newest batch.

    ``origins``: of every lineage of the stream. A seed takes no batch of its parent over: its path begins with itself.
    A lineage whose parent has no record, because the home was put back from a backup, notes the path before it.
    """
    path, seen, origin = [Segment(lineage, until)], {lineage}, origins.get(lineage)
    while origin is not None and origin.parent is not None and origin.parent not in seen:
        if origin.batch_id == BEFORE_THE_FIRST:
            break
        path.append(Segment(origin.parent, origin.batch_id))
        seen.add(origin.parent)
        if origin.parent not in origins:
            path.extend(reversed(origin.path))
            break
        origin = origins[origin.parent]
    return tuple(reversed(path))


def find_moved_rows(lineage: str, origins: Mapping[str, Origin | None]) -> str:
    """Return ``lineage``, or its newest ancestor that a restore or a seed began, or a first one."""
    seen, origin = {lineage}, origins.get(lineage)
    while origin is not None and origin.parent not in {None, *seen} and origin.batch_id != NO_BATCH and not origin.left:
        lineage = str(origin.parent)
        seen.add(lineage)
        origin = origins.get(lineage)
    return lineage


def batches_only_on(path: Path, other: Path) -> tuple[BatchRange, ...]:
    """Return the batches on ``path`` that are not on ``other``, in the order of ``path``."""
    ends = {segment.lineage: segment for segment in other}
    found = []
    for segment in path:
        beside = ends.get(segment.lineage)
        if beside is None:
            found.append(BatchRange(segment.lineage, BEFORE_THE_FIRST, segment.until))
        elif beside.until is not None and (segment.until is None or segment.until > beside.until):
            found.append(BatchRange(segment.lineage, beside.until, segment.until))
    return tuple(found)


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
    """Return the lineage that was active before and can resume. Raises NoWayBack, DamagedFile."""
    origin = ORIGIN_FILE.of(home, lineage).require()
    if origin is None or origin.before is None:
        cause = "it began without the state of another"
    elif origin.batch_id == NO_BATCH:
        cause = f"its {origin.verb} deleted all rows of lineage {origin.before}"
    elif (newest := read_last_commit(home.checkpoint(origin.before))) is None:
        cause = f"the checkpoint of lineage {origin.before} is gone"
    elif origin.left is None and newest != origin.batch_id:
        cause = f"lineage {origin.before} had come to batch {newest}, and what it wrote after {origin.batch_id} is gone"
    else:
        return WayBack(origin, origin.before, newest)
    # to undo a change in place may be all that the user wants
    raise NoWayBack(home.name, lineage, ". ".join((cause, *undo_in_place(home, lineage))))


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


def remove_abandoned(home: StreamHome, prepared: str = "") -> None:
    """Remove half-made lineages but the ``prepared`` one, and what past seeds and restores left. Needs the lease."""
    for lineage in find_abandoned_lineages(home):
        if lineage != prepared:
            remove_lineage(home, lineage)
    pending = pending_operation(home)
    needed = set() if pending is None else {pending.id, pending.savepoint}
    for taken in (*list_entries(home.seeds), *list_entries(home.unpacked)):
        if taken.name not in needed:
            remove_tree(taken)


def find_abandoned_lineages(home: StreamHome) -> list[str]:
    """Return the lineages that a killed command left half-made and that no driver ever ran.

    They took their state from the lineage that is still active, or have none. Lineages made from a savepoint that never
    were active count as well, because the savepoint may be of any lineage. Raises DamagedFile, OSError.
    """
    active = active_lineage(home)
    moves = [lineage for each in read_operations(home) for lineage in (each.lineage_from, each.lineage_to)]
    begun = [name for each in origins_of(home).values() if each is not None for name in (each.parent, each.left)]
    # left or made active by an operation, or another one began with them. There may be more
    were_active = {lineage for lineage in (*moves, *begun) if lineage}
    return [name for name in find_lineages(home) if _is_abandoned(home, name, active, were_active)]


def find_lineages(home: StreamHome) -> list[str]:
    """Return the lineages of which the stream's data has a folder. Raises OSError."""
    return sorted(filter(is_identifier, list_names(home.lineages)))


def remove_lineage(home: StreamHome, lineage: str) -> None:
    """Remove all files of ``lineage``. Raises OSError.

    Its folder goes last, because the lineage is found by the folder's name. Its ``origin.json``, which identifies it,
    goes after Spark's files. So the next command can finish if this one is killed in between.
    """
    place = home.lineage(lineage)
    for folder in (*list_entries(place.root), place.records, place.root):
        remove_tree(folder)


def _is_abandoned(home: StreamHome, lineage: str, active: str | None, were_active: Collection[str]) -> bool:
    if lineage == active:
        return False
    origin = ORIGIN_FILE.of(home, lineage).require()
    if origin is None:  # its maker came no further than its folders, unless it is one that began with no state
        return read_begun_batch(home.checkpoint(lineage)) is None and TYPES_FILE.of(home, lineage).require() is None
    canary = read_canary(home, lineage)
    tried = canary is not None and (canary.outcome is not None or canary.drivers)
    if tried or lineage in were_active:
        return False  # a user may want to inspect it
    was_for_now = origin.parent == active or origin.savepoint is not None
    return was_for_now and not read_begun_batch(home.checkpoint(lineage))  # no batch, or the first one
