"""What was being made when its maker was killed: nobody reads it, and who makes the next lineage removes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import pending_operation, read_operations
from sessionizer.home.data_files import entries_in, names_in, remove_tree
from sessionizer.home.names import is_identifier
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.checkpoint import begun_batch
from sessionizer.lineage.kept_types import read_kept_types
from sessionizer.lineage.trial.trial_record import read_trial
from sessionizer.state.lineages.origin import parents_of, read_origin

if TYPE_CHECKING:
    from collections.abc import Collection

    from sessionizer.home.stream_home import StreamHome

_SEED_BATCH = 0


def remove_abandoned(home: StreamHome) -> None:
    """Remove such lineages, and what histories came to whose seeds are over.

    For the holder of the lease, before it makes another. Raises DamagedFile, OSError.
    """
    for lineage in abandoned_lineages(home):
        remove_lineage(home, lineage)
    pending = pending_operation(home)
    for taken in entries_in(home.seeds):
        if pending is None or taken.name != pending.id:
            remove_tree(taken)


def abandoned_lineages(home: StreamHome) -> list[str]:
    """Those that took their state from the lineage that is active still, or came to none, and that no driver ever ran.

    And those that took it from a savepoint and never were active: the savepoint may be of any lineage. Raises
    DamagedFile, OSError.
    """
    active, were_active = active_lineage(home), _were_active(home)
    found = filter(is_identifier, names_in(home.lineages))
    return [name for name in found if _is_abandoned(home, name, active, were_active)]


def remove_lineage(home: StreamHome, lineage: str) -> None:
    """Remove what there is of it. Raises OSError.

    Its folder is the last to go, by whose name it is found, and its ``origin.json``, by which it is known, after what
    Spark has written: whoever is killed in between leaves what the next one finishes.
    """
    place = home.lineage(lineage)
    for folder in (*entries_in(place.root), place.records, place.root):
        remove_tree(folder)


def _were_active(home: StreamHome) -> set[str]:
    """Those that an operation left or came to, or that another one began with. There may be more."""
    moves = [lineage for each in read_operations(home) for lineage in (each.lineage_from, each.lineage_to)]
    return {lineage for lineage in (*moves, *parents_of(home).values()) if lineage}


def _is_abandoned(home: StreamHome, lineage: str, active: str | None, were_active: Collection[str]) -> bool:
    if lineage == active:
        return False
    origin = read_origin(home, lineage)
    if origin is None:  # its maker came no further than its folders, unless it is one that began with no state
        return begun_batch(home.checkpoint(lineage)) is None and read_kept_types(home, lineage) is None
    trial = read_trial(home, lineage)
    if trial is not None and (trial.outcome is not None or trial.course.drivers):
        return False  # it was active, and left: kept for a look at it
    was_for_now = origin.parent == active or (origin.savepoint is not None and lineage not in were_active)
    return was_for_now and (begun_batch(home.checkpoint(lineage)) or _SEED_BATCH) == _SEED_BATCH
