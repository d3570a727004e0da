"""Damage of a checkpoint's logs, its effect and remedy: ``metadata``, offsets, commits, lists.

Spark's reaction to each was seen with Spark 4.2 (tests/spark/inspection).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.names import COMMITS, METADATA, OFFSETS
from sessionizer.inspection.finding import (
    ELSEWHERE,
    GONE,
    LEAVE,
    CheckpointDamage,
    Effect,
    RemedyStep,
    list_batch_files,
    missing_checksum,
    removal_steps,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.inspection.checkpoint_read import Checkpoint

_VERSION: Final = re.compile(r"state/.*/(\d+)\.\w+")
_OF_ONE_TRY: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_AGAIN: Final = "its batch runs again with the same input. A sink that has the batch's number skips it"


_MOST_GONE: Final = 1000
"""Most parts of a list of files that are reported as missing after the newest one."""


def find_damaged_logs(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    """Yield every damage of the logs."""
    yield from _metadata(checkpoint)
    yield from _offsets(checkpoint)
    yield from _commits(checkpoint)
    yield from _lists(checkpoint)


def _effect(checkpoint: Checkpoint, name: str) -> Effect:
    """Return the effect of a damaged file that Spark reads when it starts.

    Spark uses a file that it can parse as it is.
    """
    return Effect.WRONG if name in checkpoint.altered else Effect.STOPS


def _metadata(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    wrong = checkpoint.wrong.get(METADATA) if METADATA in checkpoint.files.sizes else GONE
    if wrong is None or checkpoint.begun is None:
        return
    remedy = (
        'write it again as {"id":"…"}, without Hadoop\'s .metadata.crc. The query\'s id is in its progress and in the '
        "driver's log. With another id the query continues too, but a sink that knows batches by the id (Delta's own) "
        "may write one twice"
    )
    yield CheckpointDamage(METADATA, wrong, _effect(checkpoint, METADATA), "Spark does not have the query's id", remedy)


def _offsets(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    begun, there = checkpoint.begun, checkpoint.files.numbered(OFFSETS)
    commits = checkpoint.files.numbered(COMMITS)
    last = max([*there, *commits], default=None)
    if begun is None or last is None:
        return
    for batch in range(min([*there, *commits]), last + 1):
        name = there.get(batch, f"{OFFSETS}/{batch}")
        wrong = checkpoint.wrong.get(name) if batch in there else GONE
        if wrong is None:
            continue
        if batch == last:
            yield _last_offsets(checkpoint, batch, name, wrong)
        elif batch == last - 1:
            yield _offsets_before(checkpoint, batch, name, wrong)
        else:
            follows = f"batch {batch} cannot be restored, and its state cannot be read"
            yield CheckpointDamage(name, wrong, Effect.PAST, follows, LEAVE)


def _last_offsets(checkpoint: Checkpoint, batch: int, name: str, wrong: str) -> CheckpointDamage:
    """Return the finding about the offsets of the newest batch."""
    steps = removal_steps(checkpoint.files, name, *list_batch_files(checkpoint, batch))
    follows = f"Spark cannot tell what batch {batch} reads"
    remedy = (
        f"remove it and commits/{batch}: the batch is planned again, after batch {batch - 1}. It may read more than "
        "before. A sink that skips a batch by its number would lose the rest, so make it forget the batch"
    )
    return CheckpointDamage(name, wrong, _effect(checkpoint, name), follows, remedy, steps)


def _offsets_before(checkpoint: Checkpoint, batch: int, name: str, wrong: str) -> CheckpointDamage:
    """Return the finding about the offsets of the batch before the newest, which Spark also reads when it starts."""
    newest = f"{OFFSETS}/{batch + 1}"
    follows = f"Spark reads it when it starts, to know where batch {batch + 1} begins"
    if batch + 1 not in checkpoint.commits or newest not in checkpoint.files.sizes or newest in checkpoint.wrong:
        return CheckpointDamage(name, wrong, _effect(checkpoint, name), follows, ELSEWHERE)
    if name in checkpoint.altered:
        follows = (
            f"Spark looks for it when it starts. Its content does not matter, because batch {batch + 1} is committed"
        )
        return CheckpointDamage(name, wrong, Effect.PAST, follows, LEAVE)
    steps = (*removal_steps(checkpoint.files, name), RemedyStep(name, newest))
    remedy = f"put a copy of {newest} there, because batch {batch + 1} is committed and Spark only looks for the file"
    return CheckpointDamage(name, wrong, Effect.STOPS, follows, remedy, steps)


def _commits(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    there, committed = checkpoint.files.numbered(COMMITS), checkpoint.committed
    if committed is None:
        return
    for batch in range(min([*there, *checkpoint.files.numbered(OFFSETS)]), committed + 1):
        name = there.get(batch, f"{COMMITS}/{batch}")
        wrong = checkpoint.wrong.get(name) if batch in there else GONE
        if wrong is None:
            continue
        if batch == committed:
            remedy = f"remove it: {_AGAIN}"
            follows = f"Spark cannot tell that batch {batch} is committed"
            steps = removal_steps(checkpoint.files, *list_batch_files(checkpoint, batch))
            yield CheckpointDamage(name, wrong, _effect(checkpoint, name), follows, remedy, steps)
        else:
            follows = f"the state of batch {batch} cannot be read"
            yield CheckpointDamage(name, wrong, Effect.PAST, follows, LEAVE)


def _lists(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    """Yield the damage of the files that a source has listed."""
    for source, parts in checkpoint.listed.items():
        newest = checkpoint.newest
        end = newest.ends.get(source) if newest else None
        until = int(end["logOffset"]) if isinstance(end, dict) and set(end) == {"logOffset"} else -1
        whole = max(
            (n for n, name in parts.items() if name.endswith(".compact") and name not in checkpoint.wrong), default=-1
        )
        told = min(until, max(parts, default=-1) + _MOST_GONE)  # a number in a damaged file may be of any size
        for part in range(told + 1):
            name = parts.get(part, f"sources/{source}/{part}")
            wrong = checkpoint.wrong.get(name) if part in parts else GONE
            if wrong is None or part < whole:
                continue
            yield _part_of_list(checkpoint, name, wrong, is_last=part == until)


def _part_of_list(checkpoint: Checkpoint, name: str, wrong: str, *, is_last: bool) -> CheckpointDamage:
    source = name.split("/")[1]
    remedy = (
        'write its lines again, one for each file that it had ({"path":…,"timestamp":…,"batchId":…}), without '
        f"Hadoop's checksum of it. The parts beside it show the form. Or {ELSEWHERE}"
    )
    if wrong == GONE and is_last:
        follows = f"source {source} gives its number, which counts as read, to the next files: they are never read"
        return CheckpointDamage(name, wrong, Effect.WRONG, follows, remedy)
    if name in checkpoint.altered:
        follows = f"source {source} takes files in it for new ones, and reads them again"
        return CheckpointDamage(name, wrong, Effect.WRONG, follows, remedy)
    return CheckpointDamage(name, wrong, Effect.STOPS, f"source {source} cannot tell which files it has read", remedy)


def find_left_checksums(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    """Yield a finding for each missing file whose checksum exists."""
    for checksum in checkpoint.files.sizes:
        folder, slash, own = checksum.rpartition("/")
        is_hadoops = own.startswith(".")
        name = f"{folder}{slash}{own.removeprefix('.').removesuffix('.crc')}"
        if not own.endswith(".crc") or name in checkpoint.files.sizes or name.endswith(".tmp"):
            continue
        if name.endswith(".crc"):
            yield missing_checksum(name)
            continue
        if is_hadoops and _is_written_again(checkpoint, name):
            remedy = f"remove {checksum} as well, so that Spark can write the file again"
            follows = "Spark cannot write the file again under that name"
            wrong = f"{GONE}, and Hadoop's checksum of it is there"
            yield CheckpointDamage(name, wrong, Effect.STOPS, follows, remedy, (RemedyStep(checksum),))
        else:
            follows = "its batch cannot be read"
            yield CheckpointDamage(name, f"{GONE}, and its checksum is there", Effect.PAST, follows, LEAVE)


def _is_written_again(checkpoint: Checkpoint, name: str) -> bool:
    """Whether a query that continues gives a file this name.

    It does not for a file of one try, or of a batch that is over.
    """
    if _OF_ONE_TRY.search(name):
        return False
    version = _VERSION.fullmatch(name)
    return version is None or checkpoint.committed is None or int(version[1]) > checkpoint.committed + 1
