"""Damage of a checkpoint: each file's problem, its effect on the next start of Spark 4.2, and the remedy."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from sessionizer.checkpoint.files import Files, hadoop_file
from sessionizer.checkpoint.log_entries import COMMITS, METADATA, OFFSETS, SOURCES, STATE
from sessionizer.checkpoint.state_files import (
    CHECKSUM,
    DEFAULT,
    MOST_GONE,
    OPERATOR_FILE,
    SCHEMA_FILE,
    Chain,
    StorePlace,
)
from sessionizer.inspection.checkpoint_read import Checkpoint

GONE: Final = "it is gone"
ELSEWHERE: Final = (
    "put the file back from a copy. Without a copy, continue in a new checkpoint: with `sessionizer restore` for a "
    "stream of ours, else from the source's beginning"
)
LEAVE: Final = "leave it: Spark removes it in time"


class Effect(StrEnum):
    """Effect of a damage on a query that starts from the checkpoint."""

    STOPS = "the query does not start, or fails at once"
    WRONG = "the query starts, but its results are wrong"
    PAST = "the query continues, but an earlier batch cannot be read or restored"
    NONE = "no effect, because Spark does not need it"

    @property
    def is_harmful(self) -> bool:
        """Whether a user must repair it before the next start."""
        return self in {Effect.STOPS, Effect.WRONG}


@dataclass(frozen=True, slots=True)
class RemedyStep:
    """Step of a remedy: remove a file, or put a copy of ``source`` there. Names are below the checkpoint."""

    file: str
    source: str | None = None

    def __str__(self) -> str:
        return f"remove {self.file}" if self.source is None else f"copy {self.source} to {self.file}"


@dataclass(frozen=True, slots=True)
class CheckpointDamage:
    """Damage of one file. ``steps``: the part of the remedy that can be done by hand, in this order, if any."""

    file: str
    wrong: str
    effect: Effect
    follows: str
    remedy: str
    steps: tuple[RemedyStep, ...] = ()


def removal_steps(files: Files, *names: str) -> tuple[RemedyStep, ...]:
    """Return the steps that remove files, with Hadoop's checksums of them."""
    wanted = [each for name in names for each in (name, hadoop_file(name)) if each in files.sizes]
    return tuple(RemedyStep(name) for name in wanted)


def list_batch_files(checkpoint: Checkpoint, batch: int) -> list[str]:
    """List the files that say that a batch is over. In format 1 those of each try have the same names."""
    versions = (file for there in checkpoint.stores.values() for file in there if file.version > batch)
    return [f"{COMMITS}/{batch}", *(file.name for file in versions if checkpoint.state_format == 1)]


def missing_checksum(checksum: str) -> CheckpointDamage:
    """Return the finding about a missing checksum of Spark's."""
    follows = "a change of the file beside it would not be noticed"
    return CheckpointDamage(checksum, GONE, Effect.NONE, follows, "leave it")


_VERSION: Final = re.compile(r"state/.*/(\d+)\.\w+")
_OF_ONE_TRY: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_OPERATOR_FOLDER: Final = re.compile(rf"{STATE}/(\d+)/")
_ORDER: Final = list(Effect)


def damages(checkpoint: Checkpoint) -> list[CheckpointDamage]:
    """Return one finding for each damaged or missing file, the worst first."""
    found: dict[str, CheckpointDamage] = {}
    for find in (_metadata, _offsets, _commits, _lists, _operators, _schemas, _versions):
        for finding in find(checkpoint):
            known = found.get(finding.file)
            if known is None or _ORDER.index(finding.effect) < _ORDER.index(known.effect):
                found[finding.file] = finding
    for finding in _left_checksums(checkpoint):
        known = found.get(finding.file)
        if known is None:
            found[finding.file] = finding
        elif finding.effect is Effect.STOPS and (known.steps or known.effect is Effect.WRONG):
            # the remedy removes Hadoop's checksum as well
            found[finding.file] = replace(known, wrong=finding.wrong, effect=finding.effect, follows=finding.follows)
    return sorted(found.values(), key=lambda finding: (_ORDER.index(finding.effect), finding.file))


def _effect(checkpoint: Checkpoint, name: str) -> Effect:
    """Return the effect of a damaged file that Spark reads when it starts. One that it can parse it uses as it is."""
    return Effect.WRONG if name in checkpoint.altered else Effect.STOPS


def _problems(checkpoint: Checkpoint, log: str, first: int, last: int) -> Iterator[tuple[int, str, str]]:
    """Yield number, name and problem of each damaged file of a log, and of the newest that are missing."""
    there = checkpoint.files.numbered(log)
    for number in sorted({*there, *range(max(first, last - MOST_GONE), last + 1)}):
        if not first <= number <= last:
            continue
        name = there.get(number, f"{log}/{number}")
        wrong = checkpoint.wrong.get(name) if number in there else GONE
        if wrong is not None:
            yield number, name, wrong


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
    if checkpoint.begun is None:
        return
    numbers = {*checkpoint.files.numbered(OFFSETS), *checkpoint.files.numbered(COMMITS)}
    last = max(numbers)
    for batch, name, wrong in _problems(checkpoint, OFFSETS, min(numbers), last):
        if batch == last:
            steps = removal_steps(checkpoint.files, name, *list_batch_files(checkpoint, batch))
            follows = f"Spark cannot tell what batch {batch} reads"
            remedy = (
                f"remove it and commits/{batch}: the batch is planned again, after batch {batch - 1}. It may read more "
                "than before. A sink that skips a batch by its number would lose the rest, so make it forget the batch"
            )
            yield CheckpointDamage(name, wrong, _effect(checkpoint, name), follows, remedy, steps)
        elif batch == last - 1:
            yield _offsets_before(checkpoint, batch, name, wrong)
        else:
            follows = f"batch {batch} cannot be restored, and its state cannot be read"
            yield CheckpointDamage(name, wrong, Effect.PAST, follows, LEAVE)


def _offsets_before(checkpoint: Checkpoint, batch: int, name: str, wrong: str) -> CheckpointDamage:
    """Return the finding about the offsets of the batch before the newest, which Spark also reads when it starts."""
    newest = f"{OFFSETS}/{batch + 1}"
    if batch + 1 not in checkpoint.commits or newest not in checkpoint.files.sizes or newest in checkpoint.wrong:
        follows = f"Spark reads it when it starts, to know where batch {batch + 1} begins"
        return CheckpointDamage(name, wrong, _effect(checkpoint, name), follows, ELSEWHERE)
    if name in checkpoint.altered:
        follows = (
            f"Spark looks for it when it starts. Its content does not matter, because batch {batch + 1} is committed"
        )
        return CheckpointDamage(name, wrong, Effect.PAST, follows, LEAVE)
    follows = f"Spark reads it when it starts, to know where batch {batch + 1} begins"
    steps = (*removal_steps(checkpoint.files, name), RemedyStep(name, newest))
    remedy = f"put a copy of {newest} there, because batch {batch + 1} is committed and Spark only looks for the file"
    return CheckpointDamage(name, wrong, Effect.STOPS, follows, remedy, steps)


def _commits(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    committed = checkpoint.committed
    if committed is None:
        return
    first = min({*checkpoint.files.numbered(COMMITS), *checkpoint.files.numbered(OFFSETS)})
    for batch, name, wrong in _problems(checkpoint, COMMITS, first, committed):
        if batch == committed:
            remedy = "remove it: its batch runs again with the same input. A sink that has the batch's number skips it"
            follows = f"Spark cannot tell that batch {batch} is committed"
            steps = removal_steps(checkpoint.files, *list_batch_files(checkpoint, batch))
            yield CheckpointDamage(name, wrong, _effect(checkpoint, name), follows, remedy, steps)
        else:
            yield CheckpointDamage(name, wrong, Effect.PAST, f"the state of batch {batch} cannot be read", LEAVE)


def _lists(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    remedy = (
        'write its lines again, one for each file that it had ({"path":…,"timestamp":…,"batchId":…}), without '
        f"Hadoop's checksum of it. The parts beside it show the form. Or {ELSEWHERE}"
    )
    for source, parts in checkpoint.listed.items():
        newest = checkpoint.newest
        end = newest.ends.get(source) if newest else None
        until = int(end["logOffset"]) if isinstance(end, dict) and set(end) == {"logOffset"} else -1
        compact = (n for n, name in parts.items() if name.endswith(".compact") and name not in checkpoint.wrong)
        first = max([0, *compact])
        told = min(until, max(parts, default=-1) + MOST_GONE)
        for part, name, wrong in _problems(checkpoint, f"{SOURCES}/{source}", first, told):
            effect, follows = Effect.STOPS, f"source {source} cannot tell which files it has read"
            if wrong == GONE and part == until:
                effect = Effect.WRONG
                follows = (
                    f"source {source} gives its number, which counts as read, to the next files: they are never read"
                )
            elif name in checkpoint.altered:
                effect, follows = Effect.WRONG, f"source {source} takes files in it for new ones, and reads them again"
            yield CheckpointDamage(name, wrong, effect, follows, remedy)


def _left_checksums(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    for checksum in checkpoint.files.sizes:
        folder, slash, own = checksum.rpartition("/")
        name = f"{folder}{slash}{own.removeprefix('.').removesuffix('.crc')}"
        if not own.endswith(".crc") or name in checkpoint.files.sizes or name.endswith(".tmp"):
            continue
        if name.endswith(".crc"):
            yield missing_checksum(name)
        elif own.startswith(".") and _is_written_again(checkpoint, name):
            remedy = f"remove {checksum} as well, so that Spark can write the file again"
            follows = "Spark cannot write the file again under that name"
            wrong = f"{GONE}, and Hadoop's checksum of it is there"
            yield CheckpointDamage(name, wrong, Effect.STOPS, follows, remedy, (RemedyStep(checksum),))
        else:
            wrong = f"{GONE}, and its checksum is there"
            yield CheckpointDamage(name, wrong, Effect.PAST, "its batch cannot be read", LEAVE)


def _is_written_again(checkpoint: Checkpoint, name: str) -> bool:
    """Whether a query that continues gives a file this name. Not that of a file of one try, or of a committed batch."""
    if _OF_ONE_TRY.search(name):
        return False
    version = _VERSION.fullmatch(name)
    return version is None or checkpoint.committed is None or int(version[1]) > checkpoint.committed + 1


def _operators(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    wrong = {name: problem for name, problem in checkpoint.wrong.items() if OPERATOR_FILE.fullmatch(name)}
    there = {int(match[1]) for name in checkpoint.files.sizes if (match := OPERATOR_FILE.fullmatch(name))}
    folders = {int(match[1]) for name in checkpoint.files.sizes if (match := _OPERATOR_FOLDER.match(name))}
    for operator in sorted(folders - there):
        of_variables = any(checkpoint.files.list_below(f"{STATE}/{operator}/_stateSchema"))
        wrong[f"{STATE}/{operator}/_metadata/{'v2/0' if of_variables else 'metadata'}"] = GONE
    for name, problem in wrong.items():
        if "/_metadata/v2/" in name:  # of a transformWithState: it names the files of its schema
            follows = "Spark cannot find the schema of the state"
            yield CheckpointDamage(name, problem, Effect.STOPS, follows, ELSEWHERE)
        else:
            follows = "Spark's state reader cannot read the state"
            remedy = "remove it and Hadoop's checksum of it: the query writes it again when it starts"
            steps = removal_steps(checkpoint.files, name)
            yield CheckpointDamage(name, problem, Effect.PAST, follows, remedy, steps)


def _schemas(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    found = [(name, wrong) for name, wrong in checkpoint.wrong.items() if SCHEMA_FILE.fullmatch(name)]
    for operator in checkpoint.operators.values():
        wanted = [f"{STATE}/{operator.number}/{name}" for store in operator.stores for name in store.schema_files]
        for store in operator.stores if not wanted else ():
            folder = "" if store.name == DEFAULT else f"{store.name}/"
            wanted.append(f"{STATE}/{operator.number}/0/{folder}_metadata/schema")
        found += [(name, GONE) for name in wanted if name not in checkpoint.files.sizes]
    follows = "Spark cannot read the rows of the state"
    remedy = (
        "remove it and Hadoop's checksum of it: the query writes it again when it starts, from its own plan. Start "
        "exactly the query that ran before, because Spark does not compare the two"
    )
    for name, wrong in found:
        if "/_stateSchema/" in name:
            yield CheckpointDamage(name, wrong, Effect.STOPS, follows, ELSEWHERE)
        else:
            effect = Effect.PAST if wrong == GONE else Effect.STOPS
            yield CheckpointDamage(name, wrong, effect, follows, remedy, removal_steps(checkpoint.files, name))


def _versions(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    told: set[str] = set()
    committed = checkpoint.committed
    for place in _places(checkpoint):
        if committed is None:
            break
        for finding in _newest_versions(checkpoint, place, committed):
            told.add(finding.file)
            yield finding
        # Spark itself has removed the files before the first whole version
        batches = [batch for batch in sorted(checkpoint.commits) if batch < committed and place in checkpoint.stores]
        chains = [checkpoint.chain(place, batch + 1) for batch in batches]
        whole = [chain.version for chain in chains if not chain.lacking]
        for name in {name for chain in chains if whole and chain.version > whole[0] for name in chain.lacking}:
            yield _unused_file(checkpoint, name, GONE)
    for name, wrong in checkpoint.wrong.items():
        is_description = OPERATOR_FILE.fullmatch(name) or SCHEMA_FILE.fullmatch(name)
        if name.startswith(f"{STATE}/") and name not in told and not is_description:
            yield _unused_file(checkpoint, name, wrong)


def _places(checkpoint: Checkpoint) -> list[StorePlace]:
    """List every store that there must be, also those whose folder is gone."""
    found = set(checkpoint.stores)
    newest = checkpoint.commits.get(-1 if checkpoint.committed is None else checkpoint.committed)
    for operator in checkpoint.operators.values():
        ids = newest.state_ids.get(operator.number) if newest else None
        for partition in range(len(ids) if ids else operator.partitions):
            for store in operator.stores:
                own = f"/{store.name}" if store.name != DEFAULT else ""
                folder = f"{STATE}/{operator.number}/{partition}{own}"
                found.add(StorePlace(operator.number, partition, store.name, folder))
    return sorted(found)


def _newest_versions(checkpoint: Checkpoint, place: StorePlace, committed: int) -> Iterator[CheckpointDamage]:
    """Yield the damage that prevents loading the state after the newest committed batch, or changes how it loads."""
    version = committed + 1
    chain = checkpoint.chain(place, version)
    bad = [(name, checkpoint.wrong[name]) for name in chain.names if name in checkpoint.wrong]
    bad += [(name, GONE) for name in chain.lacking]
    for name, wrong in bad:
        yield _blocking(checkpoint, place, chain, name, wrong)
    has = {name: f"{name}{CHECKSUM}" in checkpoint.files.sizes for name in chain.names}
    for name in (name for name, has_checksum in has.items() if not has_checksum and any(has.values())):
        yield missing_checksum(f"{name}{CHECKSUM}")
    for file in checkpoint.stores.get(place, ()):
        if file.is_whole and file.version <= version and checkpoint.is_spoilt(file.name):
            yield from _snapshot(checkpoint, place, file.name, can_do_without=not bad)


def _snapshot(
    checkpoint: Checkpoint, place: StorePlace, snapshot: str, *, can_do_without: bool
) -> Iterator[CheckpointDamage]:
    shared = checkpoint.shared.get(snapshot, ())
    culprits = [name for name in shared if name in checkpoint.wrong or name not in checkpoint.files.sizes]
    effect, follows, remedy = Effect.STOPS, "the changes that could replace it are not all there", ELSEWHERE
    if can_do_without:
        effect, remedy = Effect.NONE, "leave it: the next snapshot takes its place"
        follows = f"Spark loads the state of partition {place.partition} from an older snapshot and the changes since"
    for name in culprits or [snapshot]:
        yield CheckpointDamage(name, checkpoint.wrong.get(name, GONE), effect, follows, remedy)


def _blocking(checkpoint: Checkpoint, place: StorePlace, chain: Chain, name: str, wrong: str) -> CheckpointDamage:
    last = chain.version - 1
    follows = f"the state of partition {place.partition} after batch {last} cannot be loaded"
    alone = checkpoint.chain(place, last)
    is_newest = not alone.lacking and not any(each in checkpoint.wrong for each in alone.names)
    if not is_newest or (last != 0 and last - 1 not in checkpoint.offsets):
        return CheckpointDamage(name, wrong, Effect.STOPS, follows, ELSEWHERE)
    remedy = (
        f"remove commits/{last}: batch {last} runs again from the state before it, over the same input. "
        "A sink that has the batch's number skips it"
    )
    stale = dict.fromkeys([*list_batch_files(checkpoint, last), name, f"{name}{CHECKSUM}"])
    return CheckpointDamage(name, wrong, Effect.STOPS, follows, remedy, removal_steps(checkpoint.files, *stale))


def _unused_file(checkpoint: Checkpoint, name: str, wrong: str) -> CheckpointDamage:
    if not name.endswith(CHECKSUM):
        return CheckpointDamage(name, wrong, Effect.PAST, "the state of its batches cannot be read", LEAVE)
    follows = "Spark cannot check the file beside it, and does not load it"
    remedy = "remove it: Spark loads a file without a checksum as it is"
    return CheckpointDamage(name, wrong, Effect.STOPS, follows, remedy, removal_steps(checkpoint.files, name))
