"""What is damaged in the state of a checkpoint, what follows, and what to do.

What Spark does with each was seen with Spark 4.2 (tests/spark/inspection).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sessionizer.inspection.checkpoint_read import COMMITS, OPERATOR_FILE, SCHEMA_FILE
from sessionizer.inspection.damaged_logs import ELSEWHERE, GONE, LEAVE, removed
from sessionizer.inspection.finding import Effect, Finding
from sessionizer.inspection.state_files import CHECKSUM, STATE, StorePlace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.inspection.checkpoint_read import Checkpoint
    from sessionizer.inspection.state_files import Chain

_OPERATOR_FOLDER: Final = re.compile(rf"{STATE}/(\d+)/")


def damaged_state(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Every damage of it."""
    yield from _operators(checkpoint)
    yield from _schemas(checkpoint)
    yield from _versions(checkpoint)


def _operators(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Of what the operators say of themselves."""
    for name, wrong in checkpoint.wrong.items():
        if OPERATOR_FILE.fullmatch(name):
            yield _description(checkpoint, name, wrong)
    there = {int(match[1]) for name in checkpoint.files.sizes if (match := OPERATOR_FILE.fullmatch(name))}
    for operator in sorted(
        {int(match[1]) for name in checkpoint.files.sizes if (match := _OPERATOR_FOLDER.match(name))}
    ):
        if operator not in there:
            yield _description(checkpoint, f"{STATE}/{operator}/_metadata/metadata", GONE)


def _description(checkpoint: Checkpoint, name: str, wrong: str) -> Finding:
    follows = "Spark's reader of states cannot tell what the state is of"
    remedy = "remove it, with Hadoop's checksum of it: the query writes it anew when it starts"
    return Finding(name, wrong, Effect.PAST, follows, remedy, removed(checkpoint.files, name))


def _schemas(checkpoint: Checkpoint) -> Iterator[Finding]:
    for name, wrong in checkpoint.wrong.items():
        if SCHEMA_FILE.fullmatch(name):
            yield _schema(checkpoint, name, wrong)
    for operator in checkpoint.operators.values():
        wanted = [f"{STATE}/{operator.number}/{name}" for store in operator.stores for name in store.schema_files]
        for store in operator.stores if not wanted else ():
            folder = "" if store.name == "default" else f"{store.name}/"
            wanted.append(f"{STATE}/{operator.number}/0/{folder}_metadata/schema")
        for name in wanted:
            if name not in checkpoint.files.sizes:
                yield _schema(checkpoint, name, GONE)


def _schema(checkpoint: Checkpoint, name: str, wrong: str) -> Finding:
    follows = "Spark cannot tell what the rows of the state are"
    if "/_stateSchema/" in name:
        return Finding(name, wrong, Effect.STOPS, follows, ELSEWHERE)
    remedy = (
        "remove it, with Hadoop's checksum of it: the query writes it anew when it starts, from its own plan. Start "
        "exactly the query that ran before, as nothing compares the two then"
    )
    effect = Effect.PAST if wrong == GONE else Effect.STOPS
    return Finding(name, wrong, effect, follows, remedy, removed(checkpoint.files, name))


def _versions(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Of the files that hold the rows."""
    told: set[str] = set()
    committed = checkpoint.committed
    for place in _places(checkpoint):
        if committed is None:
            break
        for finding in _of_newest(checkpoint, place, committed):
            told.add(finding.file)
            yield finding
        yield from _of_earlier(checkpoint, place, committed)
    for name, wrong in checkpoint.wrong.items():
        if name.startswith(f"{STATE}/") and name not in told and not _is_described(name):
            yield _of_no_use_now(checkpoint, name, wrong)


def _of_earlier(checkpoint: Checkpoint, place: StorePlace, committed: int) -> Iterator[Finding]:
    """Files that are gone of batches that are kept. Those before the first whole one Spark has removed itself."""
    if place not in checkpoint.stores:
        return
    chains = [checkpoint.chain(place, batch + 1) for batch in sorted(checkpoint.commits) if batch < committed]
    whole = [chain.version for chain in chains if not chain.lacking]
    for name in {name for chain in chains if whole and chain.version > whole[0] for name in chain.lacking}:
        yield _of_no_use_now(checkpoint, name, GONE)


def _is_described(name: str) -> bool:
    return bool(OPERATOR_FILE.fullmatch(name) or SCHEMA_FILE.fullmatch(name))


def _places(checkpoint: Checkpoint) -> list[StorePlace]:
    """Every store that there must be: those that are there, and those whose folder is gone."""
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


def _of_newest(checkpoint: Checkpoint, place: StorePlace, committed: int) -> Iterator[Finding]:
    """What keeps the state after the newest committed batch from being loaded, or makes it go another way."""
    version = committed + 1
    chain = checkpoint.chain(place, version)
    bad = [(name, checkpoint.wrong[name]) for name in chain.names if name in checkpoint.wrong]
    bad += [(name, GONE) for name in chain.lacking]
    for name, wrong in bad:
        yield _blocking(checkpoint, place, chain, name, wrong)
    yield from _unchecked(checkpoint, chain)
    for file in checkpoint.stores.get(place, ()):
        if not file.is_whole or file.version > version or not checkpoint.is_spoilt(file.name):
            continue
        culprits = {name: checkpoint.wrong.get(name, GONE) for name in checkpoint.shared.get(file.name, ())}
        culprits = {n: w for n, w in culprits.items() if n in checkpoint.wrong or n not in checkpoint.files.sizes}
        for name, wrong in (culprits or {file.name: checkpoint.wrong[file.name]}).items():
            follows = (
                f"Spark loads the state of partition {place.partition} from an older snapshot and the changes since"
            )
            if bad:
                yield Finding(
                    name, wrong, Effect.STOPS, "the changes that would do without it are not all there", ELSEWHERE
                )
            else:
                yield Finding(name, wrong, Effect.NONE, follows, "leave it: the next snapshot takes its place")


def _unchecked(checkpoint: Checkpoint, chain: Chain) -> Iterator[Finding]:
    """The files of a version without a checksum, where others of it have one."""
    has = {name: f"{name}{CHECKSUM}" in checkpoint.files.sizes for name in chain.names}
    for name in (name for name, has_checksum in has.items() if not has_checksum and any(has.values())):
        follows = "nobody would notice if the file beside it were changed"
        yield Finding(f"{name}{CHECKSUM}", GONE, Effect.NONE, follows, "leave it")


def _blocking(checkpoint: Checkpoint, place: StorePlace, chain: Chain, name: str, wrong: str) -> Finding:
    follows = f"the state of partition {place.partition} after batch {chain.version - 1} cannot be loaded"
    last = chain.version - 1
    alone = checkpoint.chain(place, last)
    is_newest = not alone.lacking and not any(each in checkpoint.wrong for each in alone.names)
    if is_newest and (last == 0 or last - 1 in checkpoint.offsets):
        remedy = (
            f"remove commits/{last}: batch {last} runs again from the state before it, over the same input. "
            "A sink that knows the batch by its number passes over it"
        )
        steps = removed(checkpoint.files, f"{COMMITS}/{last}", name, f"{name}{CHECKSUM}")
        return Finding(name, wrong, Effect.STOPS, follows, remedy, steps)
    return Finding(name, wrong, Effect.STOPS, follows, ELSEWHERE)


def _of_no_use_now(checkpoint: Checkpoint, name: str, wrong: str) -> Finding:
    if name.endswith(CHECKSUM):
        return _checksum(checkpoint, name, wrong)
    follows = "nothing can read the state of the batches that it belongs to"
    return Finding(name, wrong, Effect.PAST, follows, LEAVE)


def _checksum(checkpoint: Checkpoint, name: str, wrong: str) -> Finding:
    follows = "Spark cannot check the file beside it, and does not load it"
    remedy = "remove it: Spark loads a file without a checksum as it is"
    return Finding(name, wrong, Effect.STOPS, follows, remedy, removed(checkpoint.files, name))
