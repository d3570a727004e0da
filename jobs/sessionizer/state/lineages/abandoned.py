"""Lineages that a killed command left half-made.

No driver reads them, and the next command that makes a lineage removes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.checkpoint.batch_logs import read_begun_batch
from sessionizer.control.records.operation_record import pending_operation, read_operations
from sessionizer.home.data_files import list_entries, list_names, remove_tree
from sessionizer.home.names import is_identifier
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer.lineage.kept_spec import TYPES_FILE
from sessionizer.state.lineages.origin import ORIGIN_FILE, origins_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from sessionizer.home.stream_home import StreamHome

_SEED_BATCH = 0


def remove_abandoned(home: StreamHome) -> None:
    """Remove abandoned lineages, and the results of histories whose seeds are over.

    Only the holder of the lease may, before it makes another lineage. Raises DamagedFile, OSError.
    """
    for lineage in find_abandoned_lineages(home):
        remove_lineage(home, lineage)
    pending = pending_operation(home)
    for taken in list_entries(home.seeds):
        if pending is None or taken.name != pending.id:
            remove_tree(taken)


def find_abandoned_lineages(home: StreamHome) -> list[str]:
    """Return the lineages that a killed command left half-made and that no driver ever ran.

    They took their state from the lineage that is still active, or have none. Lineages made from a savepoint that never
    were active count as well, because the savepoint may be of any lineage. Raises DamagedFile, OSError.
    """
    active, were_active = active_lineage(home), _were_active(home)
    found = filter(is_identifier, list_names(home.lineages))
    return [name for name in found if _is_abandoned(home, name, active, were_active)]


def remove_lineage(home: StreamHome, lineage: str) -> None:
    """Remove all files of ``lineage``. Raises OSError.

    Its folder goes last, because the lineage is found by the folder's name. Its ``origin.json``, which identifies it,
    goes after Spark's files. So the next command can finish if this one is killed in between.
    """
    place = home.lineage(lineage)
    for folder in (*list_entries(place.root), place.records, place.root):
        remove_tree(folder)


def _were_active(home: StreamHome) -> set[str]:
    """Return the lineages that an operation left or made active, or that another one began with. There may be more."""
    moves = [lineage for each in read_operations(home) for lineage in (each.lineage_from, each.lineage_to)]
    begun = [origin for origin in origins_of(home).values() if origin is not None]
    return {lineage for lineage in (*moves, *(name for each in begun for name in (each.parent, each.left))) if lineage}


def _is_abandoned(home: StreamHome, lineage: str, active: str | None, were_active: Collection[str]) -> bool:
    if lineage == active:
        return False
    origin = ORIGIN_FILE.of(home, lineage).require()
    if origin is None:  # its maker came no further than its folders, unless it is one that began with no state
        return read_begun_batch(home.checkpoint(lineage)) is None and TYPES_FILE.of(home, lineage).require() is None
    canary = read_canary(home, lineage)
    tried = canary is not None and (canary.outcome is not None or canary.course.drivers)
    if tried or lineage in were_active:
        return False  # a user may want to inspect it
    was_for_now = origin.parent == active or origin.savepoint is not None
    return was_for_now and (read_begun_batch(home.checkpoint(lineage)) or _SEED_BATCH) == _SEED_BATCH
