"""Checkpoints of earlier lineages that no command needs any more, and their removal.

Only Spark's files go. The records of a lineage stay, because the path of the active one is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.checkpoint.batch_logs import read_last_commit, read_planned_batch
from sessionizer.checkpoint.names import commit_log
from sessionizer.home.clock import describe_duration
from sessionizer.home.data_files import list_entries, list_names, remove_data, remove_tree
from sessionizer.home.names import is_identifier
from sessionizer.lineage.active import read_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.state.lineages.abandoned import find_abandoned_lineages
from sessionizer.state.lineages.origin import lineage_before
from sessionizer.state.savepoints.pruning import PruningVerdict

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, slots=True)
class OldCheckpoint:
    """A checkpoint of ``lineage`` as a compaction sees it.

    ``needed``: why it must stay, whatever its age. ``newest_at``: when its newest batch began (epoch ms), None if it
    has none. ``is_cut``: it ran batches, and their commits are gone, because a removal was killed.
    """

    lineage: str
    needed: str | None
    newest_at: int | None
    is_cut: bool = False


def judge_checkpoint(checkpoint: OldCheckpoint, keep_ms: int, now: int) -> PruningVerdict:
    """Decide whether a checkpoint goes: it is not needed, and its newest batch is older than ``keep_ms``. Pure."""
    lineage = checkpoint.lineage
    if checkpoint.needed is not None:
        return PruningVerdict(lineage, goes=False, because=checkpoint.needed)
    if checkpoint.newest_at is None:
        because = "an earlier removal was cut short" if checkpoint.is_cut else "it has no batch"
        return PruningVerdict(lineage, goes=checkpoint.is_cut, because=because)
    age = now - checkpoint.newest_at
    return PruningVerdict(lineage, goes=age > keep_ms, because=f"its newest batch began {describe_duration(age)} ago")


def judge_checkpoints(home: StreamHome, keep_ms: int, now: int) -> list[PruningVerdict]:
    """Decide on the checkpoint of each lineage of the stream. Reads only. Raises DamagedFile, OSError.

    No lineage is judged before one is active.
    """
    if read_lineage(home) is None:
        return []
    needed = _find_needed(home)
    found = filter(is_identifier, list_names(home.lineages))
    return [judge_checkpoint(_old_checkpoint(home, each, needed.get(each)), keep_ms, now) for each in sorted(found)]


def remove_checkpoint(home: StreamHome, lineage: str, keep_ms: int, now: int) -> str | None:
    """Remove Spark's files of ``lineage``, or return why it is needed since the plan was made. Raises OSError.

    The commits go first, the newest first. A rollback compares the newest one, so it never takes half a checkpoint for
    a whole one. Harmless when repeated.
    """
    verdict = judge_checkpoint(_old_checkpoint(home, lineage, _find_needed(home).get(lineage)), keep_ms, now)
    if not verdict.goes:
        return verdict.because
    commits = [each for each in list_entries(commit_log(home.checkpoint(lineage))) if each.name.isdigit()]
    for commit in sorted(commits, key=lambda each: int(each.name), reverse=True):
        remove_data(commit)
    remove_tree(home.lineage(lineage).root)
    return None


def _find_needed(home: StreamHome) -> dict[str, str]:
    """Return the reason for each lineage whose checkpoint must stay, whatever its age. Raises DamagedFile, OSError."""
    active = read_lineage(home)
    found = dict.fromkeys(find_abandoned_lineages(home), "the next command removes it, because a killed one left it")
    if active is not None:
        before = lineage_before(home, active.lineage)
        if before is not None:
            found[before] = "a rollback returns to it"
        found[active.lineage] = "it is active"
    return found


def _old_checkpoint(home: StreamHome, lineage: str, needed: str | None) -> OldCheckpoint:
    checkpoint = home.checkpoint(lineage)
    newest = read_last_commit(checkpoint)
    if newest is None:
        was_run = BatchLog(home.lineage(lineage).batches).has_batches
        return OldCheckpoint(lineage, needed, None, is_cut=was_run)
    try:
        return OldCheckpoint(lineage, needed, read_planned_batch(checkpoint, newest).at_ms)
    except (OSError, ValueError) as error:
        return OldCheckpoint(lineage, needed or f"it cannot be read: {error}", None)
