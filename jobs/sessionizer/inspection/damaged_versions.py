"""Damage of the files with the rows of a state, its effect and remedy.

Spark's reaction to each was seen with Spark 4.2 (tests/spark/inspection).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.checkpoint.descriptions import is_description
from sessionizer.checkpoint.names import STATE
from sessionizer.checkpoint.state_files import CHECKSUM, StorePlace
from sessionizer.inspection.finding import (
    ELSEWHERE,
    GONE,
    LEAVE,
    CheckpointDamage,
    Effect,
    list_batch_files,
    missing_checksum,
    removal_steps,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.checkpoint.state_files import Chain
    from sessionizer.inspection.checkpoint_read import Checkpoint


def find_damaged_versions(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    """Yield every damage of the files with rows."""
    told: set[str] = set()
    committed = checkpoint.committed
    for place in _places(checkpoint):
        if committed is None:
            break
        for finding in _find_newest_damage(checkpoint, place, committed):
            told.add(finding.file)
            yield finding
        yield from _find_earlier_damage(checkpoint, place, committed)
    for name, wrong in checkpoint.wrong.items():
        if name.startswith(f"{STATE}/") and name not in told and not is_description(name):
            yield _describe_unused_file(checkpoint, name, wrong)


def _find_earlier_damage(checkpoint: Checkpoint, place: StorePlace, committed: int) -> Iterator[CheckpointDamage]:
    """Yield missing files of kept batches. Spark itself has removed the files before the first whole version."""
    if place not in checkpoint.stores:
        return
    chains = [checkpoint.chain(place, batch + 1) for batch in sorted(checkpoint.commits) if batch < committed]
    whole = [chain.version for chain in chains if not chain.lacking]
    for name in {name for chain in chains if whole and chain.version > whole[0] for name in chain.lacking}:
        yield _describe_unused_file(checkpoint, name, GONE)


def _places(checkpoint: Checkpoint) -> list[StorePlace]:
    """List every store that there must be, also those whose folder is gone."""
    found = set(checkpoint.stores)
    newest = checkpoint.commits.get(-1 if checkpoint.committed is None else checkpoint.committed)
    for operator in checkpoint.operators.values():
        ids = newest.state_ids.get(operator.number) if newest else None
        for partition in range(len(ids) if ids else operator.partitions):
            for store in operator.stores:
                own = f"/{store.name}" if store.name != "default" else ""
                folder = f"{STATE}/{operator.number}/{partition}{own}"
                found.add(StorePlace(operator.number, partition, store.name, folder))
    return sorted(found)


def _find_newest_damage(checkpoint: Checkpoint, place: StorePlace, committed: int) -> Iterator[CheckpointDamage]:
    """Yield the damage that prevents loading the state after the newest committed batch, or changes how it loads."""
    version = committed + 1
    chain = checkpoint.chain(place, version)
    bad = [(name, checkpoint.wrong[name]) for name in chain.names if name in checkpoint.wrong]
    bad += [(name, GONE) for name in chain.lacking]
    for name, wrong in bad:
        yield _blocking(checkpoint, place, chain, name, wrong)
    yield from _find_unchecked(checkpoint, chain)
    for file in checkpoint.stores.get(place, ()):
        if file.is_whole and file.version <= version and checkpoint.is_spoilt(file.name):
            yield from _snapshot(checkpoint, place, file.name, can_do_without=not bad)


def _snapshot(
    checkpoint: Checkpoint, place: StorePlace, snapshot: str, *, can_do_without: bool
) -> Iterator[CheckpointDamage]:
    """Yield the findings about a damaged whole version, or about one of the files that it leaves to others."""
    shared = checkpoint.shared.get(snapshot, ())
    culprits = [name for name in shared if name in checkpoint.wrong or name not in checkpoint.files.sizes]
    for name in culprits or [snapshot]:
        wrong = checkpoint.wrong.get(name, GONE)
        if can_do_without:
            partition = f"the state of partition {place.partition}"
            follows = f"Spark loads {partition} from an older snapshot and the changes since"
            yield CheckpointDamage(name, wrong, Effect.NONE, follows, "leave it: the next snapshot takes its place")
        else:
            yield CheckpointDamage(
                name, wrong, Effect.STOPS, "the changes that could replace it are not all there", ELSEWHERE
            )


def _find_unchecked(checkpoint: Checkpoint, chain: Chain) -> Iterator[CheckpointDamage]:
    """Yield the files of a version without a checksum, if others of it have one."""
    has = {name: f"{name}{CHECKSUM}" in checkpoint.files.sizes for name in chain.names}
    for name in (name for name, has_checksum in has.items() if not has_checksum and any(has.values())):
        yield missing_checksum(f"{name}{CHECKSUM}")


def _blocking(checkpoint: Checkpoint, place: StorePlace, chain: Chain, name: str, wrong: str) -> CheckpointDamage:
    follows = f"the state of partition {place.partition} after batch {chain.version - 1} cannot be loaded"
    last = chain.version - 1
    alone = checkpoint.chain(place, last)
    is_newest = not alone.lacking and not any(each in checkpoint.wrong for each in alone.names)
    if is_newest and (last == 0 or last - 1 in checkpoint.offsets):
        remedy = (
            f"remove commits/{last}: batch {last} runs again from the state before it, over the same input. "
            "A sink that has the batch's number skips it"
        )
        steps = removal_steps(
            checkpoint.files, *dict.fromkeys([*list_batch_files(checkpoint, last), name, f"{name}{CHECKSUM}"])
        )
        return CheckpointDamage(name, wrong, Effect.STOPS, follows, remedy, steps)
    return CheckpointDamage(name, wrong, Effect.STOPS, follows, ELSEWHERE)


def _describe_unused_file(checkpoint: Checkpoint, name: str, wrong: str) -> CheckpointDamage:
    if name.endswith(CHECKSUM):
        return _checksum(checkpoint, name, wrong)
    follows = "the state of its batches cannot be read"
    return CheckpointDamage(name, wrong, Effect.PAST, follows, LEAVE)


def _checksum(checkpoint: Checkpoint, name: str, wrong: str) -> CheckpointDamage:
    follows = "Spark cannot check the file beside it, and does not load it"
    remedy = "remove it: Spark loads a file without a checksum as it is"
    return CheckpointDamage(name, wrong, Effect.STOPS, follows, remedy, removal_steps(checkpoint.files, name))
