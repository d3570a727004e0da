"""Streams that are due for a savepoint by their spec, and scheduled savepoints that may be removed again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sessionizer.checkpoint.log_entries import read_last_commit
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import DRAINED_FILE, active_lineage
from sessionizer.state.savepoints.listing import (
    Policy,
    PruningVerdict,
    Savepoint,
    list_condemned,
    list_savepoints,
    newest_that_stay,
    plan_removal,
    remove,
)
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, SavepointState
from sessionizer.state.savepoints.verification import digest_files
from sessionizer.stream_spec.document.names import format_duration
from sessionizer.stream_spec.document.stream import Savepoints

_REASON: Final = re.compile(r"scheduled, every \d+ [a-z]+")
"""Reason of a scheduled savepoint, which tells it from savepoints that users made."""


class NewestBatch(NamedTuple):
    """The newest batch of a stream that is over, and its lineage."""

    lineage: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judgement on scheduled work: whether it is due, and the reason."""

    due: bool
    because: str


def judge_schedule(
    every_ms: int, reached: NewestBatch | None, saved: Sequence[Manifest], *, making: bool, now: int
) -> Judgement:
    """Judge whether a stream that has ``reached`` a batch is due. ``saved``: its savepoints that count.

    A stream whose newest batch has been saved is never due, because the savepoint would be the same. ``making``: one is
    being made. ``now`` is epoch ms.
    """
    if reached is None:
        return Judgement(due=False, because="it has no batch that could be saved")
    if making:
        return Judgement(due=False, because="one is being made")
    if not saved:
        return Judgement(due=True, because="it has none")
    same = next((each for each in saved if (each.lineage, each.batch_id) == reached), None)
    if same is not None:
        return Judgement(due=False, because=f"no batch was over since {same.id}")
    # one that a wrong clock dates in the future would put off all others
    newest = max(saved, key=lambda each: (each.made_at - now < every_ms, each.made_at))
    return judge_age(every_ms, newest.made_at, now, f"{newest.id} was made")


def judge_age(every_ms: int, since: int, now: int, what: str) -> Judgement:
    """Judge by the time since the last one. It is due as well if a wrong clock dated that one far in the future."""
    age = now - since
    return Judgement(due=abs(age) >= every_ms, because=f"{what} {describe_duration(age)} ago")


def judge_stream(home: StreamHome, every_ms: int, now: int, *, native: bool = False) -> Judgement:
    """Judge the stream. Canonical savepoints have no ``native`` substitute. Raises DamagedFile."""
    pending = pending_operation(home)
    found = [] if pending else list_savepoints(home.savepoints, now)
    reached = None if pending else newest_reached(home)
    pending = pending or pending_operation(home)  # again: one that begins meanwhile changes both
    if pending is not None:
        return Judgement(due=False, because=f"its {pending.verb} is not over")
    complete = [each.manifest for each in found if each.manifest is not None and each.is_complete]
    saved = [manifest for manifest in complete if native or manifest.kind is SavepointKind.CANONICAL]
    making = any(each.state is SavepointState.MAKING for each in found)
    return judge_schedule(every_ms, reached, saved, making=making, now=now)


def newest_reached(home: StreamHome) -> NewestBatch | None:
    """Return the newest batch to resume from, None for none or a drained lineage. Raises DamagedFile."""
    lineage = active_lineage(home)
    if lineage is None or DRAINED_FILE.of(home, lineage).require() is not None:
        return None
    batch = read_last_commit(home.checkpoint(lineage))
    return None if batch is None else NewestBatch(lineage, batch)


def reason(every_ms: int) -> str:
    """Return the reason of a scheduled savepoint."""
    return f"scheduled, every {format_duration(every_ms)}"


def plan_for_scheduled(home: StreamHome, wanted: Savepoints, now: int) -> tuple[list[Savepoint], list[PruningVerdict]]:
    """Return the scheduled savepoints and a decision on each. Savepoints that users made are not looked at."""
    every = list_savepoints(home.savepoints, now)
    made = [each for each in every if each.begun is not None and _REASON.fullmatch(each.begun.why)]
    return made, plan_removal(made, home, Policy(wanted.at_least, wanted.keep_ms), now)


def prune_scheduled(home: StreamHome, wanted: Savepoints, say: Callable[[str], None]) -> None:
    """Remove scheduled savepoints. Raises UnusableSavepoint first if the newest that stays is damaged."""
    found, verdicts = plan_for_scheduled(home, wanted, epoch_ms())
    for stays, manifest in newest_that_stay(found, verdicts):
        if wrong := digest_files(stays).findings(manifest.files):
            raise UnusableSavepoint(stays.id, f"{wrong[0]}, so nothing was removed, because this one would stay")
    for savepoint, verdict in list_condemned(found, verdicts):
        needed = remove(savepoint.home, home)
        kept = f"{home.name}: kept {savepoint.id} after all: {needed}"
        say(f"{home.name}: removed {savepoint.id}: {verdict.because}" if needed is None else kept)
