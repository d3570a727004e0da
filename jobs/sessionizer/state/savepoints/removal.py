"""Removal of savepoints in two phases: each is condemned, so that no process begins to read it, then its files go.

A process that is killed in between leaves a condemned one, or one without a manifest. The next removal finishes either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.process_records import is_alive
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import data_exists, remove_data, remove_tree
from sessionizer.home.local_files import unwritable
from sessionizer.home.roots import uri_of
from sessionizer.state.lineages.origin import list_beginnings
from sessionizer.state.savepoints.marker_files import RemovalMark, read_use_mark, readers_of, write_data_record
from sessionizer.state.savepoints.pruning import BEING_READ, GONE_ON_WITH, STARTED_FROM, Candidate, pruning_plan
from sessionizer.state.savepoints.savepoint_state import SavepointState, is_at_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sessionizer.home.stream_home import SavepointHome, StreamHome
    from sessionizer.state.savepoints.listing import Savepoint
    from sessionizer.state.savepoints.manifest import Manifest
    from sessionizer.state.savepoints.marker_files import UseMark
    from sessionizer.state.savepoints.pruning import Policy, PruningVerdict


def plan_removal(savepoints: Sequence[Savepoint], home: StreamHome, policy: Policy, now: int) -> list[PruningVerdict]:
    """Decide on each savepoint of the stream of ``home``, in their order. Raises OSError, DamagedFile."""
    candidates, origins = [candidate(each) for each in savepoints], list_beginnings(home)
    return pruning_plan(candidates, origins, being_read(savepoints, now), policy, now, begun=_gone_on_with(home))


def newest_that_stay(
    savepoints: Sequence[Savepoint], verdicts: Sequence[PruningVerdict]
) -> list[tuple[SavepointHome, Manifest]]:
    """Return the newest remaining savepoint of each kind that loses one. The oldest come first."""
    goes = {verdict.id: verdict.goes for verdict in verdicts}
    going = {each.kind for each in savepoints if goes[each.id]}
    staying = [each for each in savepoints if not goes[each.id]]
    newest = {each.kind: (each.home, each.manifest) for each in staying if each.is_complete and each.manifest}
    return [each for kind, each in newest.items() if kind in going]


def candidate(savepoint: Savepoint) -> Candidate:
    """Describe a savepoint for pruning."""
    return Candidate(savepoint.id, savepoint.state, savepoint.at, savepoint.kind or "")


def being_read(savepoints: Iterable[Savepoint], now: int) -> set[str]:
    """Return the savepoints that a living process reads, or one that may live. Raises OSError."""
    return {each.id for each in savepoints if any(_is_working(reader, now) for reader in readers_of(each.home))}


def remove(home: SavepointHome, stream: StreamHome) -> str | None:
    """Remove the savepoint, or return why it is needed since the plan was made. Harmless when repeated.

    Raises UnwritablePath.
    """
    write_data_record(home.condemned, RemovalMark(epoch_ms()))
    needed = _find_need(home, stream)
    try:
        if needed is not None:
            remove_data(home.condemned)
            return needed
        remove_data(home.manifest)
        remove_tree(home.root)
    except OSError as error:
        raise unwritable(uri_of(home.root), "a savepoint that is to be removed", error) from error
    return None


def _find_need(home: SavepointHome, stream: StreamHome) -> str | None:
    """Say why the savepoint is needed. Asked after it was condemned, because later readers see that mark."""
    now = epoch_ms()
    if any(_is_working(reader, now) for reader in readers_of(home)):
        return BEING_READ
    if home.id in list_beginnings(stream):
        return STARTED_FROM
    if home.id in _gone_on_with(stream):
        return GONE_ON_WITH
    begun = read_use_mark(home.begun)
    is_over = data_exists(home.manifest) or data_exists(home.failed)
    if not is_over and begun is not None and _is_working(begun, now):
        return f"it is {SavepointState.MAKING}"
    return None


def _gone_on_with(stream: StreamHome) -> set[str]:
    """Return the savepoint of the unfinished operation, if it has any. Raises DamagedFile, ControlUnreachable."""
    pending = pending_operation(stream)
    return {pending.savepoint} if pending is not None and pending.savepoint else set()


def _is_working(engaged: UseMark, now: int) -> bool:
    return is_at_work(is_alive(engaged.process), engaged.at, now)
