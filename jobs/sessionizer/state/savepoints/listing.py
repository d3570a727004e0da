"""Savepoints of a stream: their list, the markers beside them, and their removal.

One complete savepoint of each kind always stays. Each one also stays that a lineage started from, that a process reads,
or that an operation still needs. Those that were never completed go unless they are being made.

A removal has two phases: each is condemned, so that no process begins to read it, then its files go. A process that is
killed in between leaves a condemned one, or one without a manifest. The next removal finishes either, or frees one
that is needed by now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Self

from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.process_records import ProcessIdentity, is_alive, this_process
from sessionizer.errors import ControlUnreachable, DamagedFile, UnknownSavepoint, UnusableSavepoint, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import (
    create_data_json,
    data_exists,
    examine_data_json,
    is_folder,
    list_entries,
    make_private_data,
    publish_json,
    remove_data,
    remove_tree,
    translate_refusal,
)
from sessionizer.home.json_record import JsonRecord, Moment, add_stamp, unknown_format
from sessionizer.home.local_files import unwritable
from sessionizer.home.names import is_identifier, mint_id
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.state.lineages.origin import list_beginnings
from sessionizer.state.savepoints.manifest import (
    Evidence,
    Manifest,
    SavepointKind,
    SavepointState,
    is_at_work,
    judge_state,
    read_manifest,
)

LEAST_KEPT: Final = 1
"""Fewest complete savepoints of each kind that stay."""
STARTED_FROM: Final = "a lineage started from it"
BEING_READ: Final = "a process reads it"
GONE_ON_WITH: Final = "an operation that is not over needs it"


@dataclass(frozen=True, slots=True)
class Policy:
    """A limit: complete ones stay while among the newest ``count`` of their kind, or younger than ``age_ms``."""

    count: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class PruningVerdict:
    """The decision on savepoint ``id``: whether it ``goes``, and the reason."""

    id: str
    goes: bool
    because: str


@dataclass(frozen=True, slots=True)
class UseMark(JsonRecord):
    """A process that makes or reads a savepoint since ``at`` (epoch ms). ``why``: as the user gave it."""

    at: Moment
    why: str
    pid: int
    host: str
    process_started: int | None = None
    boot_id: str | None = None
    pid_namespace: str | None = None

    @classmethod
    def now(cls, why: str) -> Self:
        """Describe this process."""
        us = this_process()
        return cls(epoch_ms(), why, us.pid, us.host, us.started, us.boot_id, us.namespace)

    @property
    def process(self) -> ProcessIdentity:
        """Identity of the process."""
        return ProcessIdentity(self.pid, self.process_started, self.host, self.boot_id, self.pid_namespace)


@dataclass(frozen=True, slots=True)
class SavepointFailure(JsonRecord):
    """The cause why a savepoint was not completed."""

    at: Moment
    cause: str


@dataclass(frozen=True, slots=True)
class RemovalMark(JsonRecord):
    """A removal of a savepoint that began ``at`` (epoch ms)."""

    at: Moment


def write_data_record(path: DataPath, record: JsonRecord, *, once: bool = False) -> bool:
    """Write ``record`` with its format and writer, ``once``: only if it is absent. Returns whether it was written.

    Raises ControlUnreachable, StoreUnreachable, DiskFull.
    """
    try:
        make_private_data(path.parent)
    except OSError as error:
        raise translate_refusal(path.parent, "a savepoint", error) from error
    content = add_stamp(record.to_json(), record.FORMAT)
    if once:
        return create_data_json(path, content)
    publish_json(path, content)
    return True


def read_use_mark(path: DataPath) -> UseMark | None:
    """Read the process that makes or reads the savepoint, None if the file is absent or damaged."""
    value = examine_data_json(path).value
    with suppress(ValueError):
        return None if value is None or unknown_format(value) is not None else UseMark.from_json(value)
    return None


def readers_of(home: SavepointHome) -> list[UseMark]:
    """Return the processes that marked themselves as readers. Some may be dead by now. Raises OSError."""
    found = (read_use_mark(file) for file in list_entries(home.readers))
    return [each for each in found if each is not None]


@contextmanager
def keep_from_removal(home: SavepointHome, why: str) -> Iterator[None]:
    """Keep the savepoint from being removed during the block. Raises UnusableSavepoint if a removal has begun.

    The reader writes its mark first and looks for a removal afterwards. The remover does it the other way round. So one
    of the two sees the other, whatever the moment. A reader that cannot write into the savepoint leaves no mark.
    """
    mark = home.reader(mint_id(epoch_ms()))
    marked = False
    # such as a vault that is mounted read-only. If others may remove it there, the reader misses files and fails
    with suppress(UnwritablePath):
        marked = write_data_record(mark, UseMark.now(why))
    try:
        if data_exists(home.condemned):
            raise UnusableSavepoint(home.id, "it is being removed")
        yield
    finally:
        if marked:
            remove_data(mark)


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint: its ``state``, its ``manifest`` if sound, the process that ``begun`` it, and what went ``wrong``."""

    home: SavepointHome
    state: SavepointState
    manifest: Manifest | None = None
    begun: UseMark | None = None
    wrong: str | None = None

    @property
    def id(self) -> str:
        """Id of the savepoint."""
        return self.home.id

    @property
    def at(self) -> int | None:
        """Time when it was completed, else begun (epoch ms), None if unknown."""
        return self.manifest.made_at if self.manifest else self.begun.at if self.begun else None

    @property
    def kind(self) -> SavepointKind | None:
        """Kind of a savepoint with a sound manifest, else None."""
        return self.manifest.kind if self.manifest else None

    @property
    def lineage(self) -> str | None:
        """The lineage of a savepoint with a sound manifest, else None."""
        return self.manifest.lineage if self.manifest else None

    @property
    def is_complete(self) -> bool:
        """Whether a stream can resume from it."""
        return self.state is SavepointState.COMPLETE


def list_savepoints(folder: DataPath, now: int) -> list[Savepoint]:
    """Return all savepoints in ``folder``, the oldest first. Raises ControlUnreachable."""
    try:
        names = [entry.name for entry in list_entries(folder) if is_identifier(entry.name) and is_folder(entry)]
    except OSError as error:
        raise ControlUnreachable(uri_of(folder), error.strerror or str(error)) from error
    found = [examine_savepoint(SavepointHome(folder / name), now) for name in names]
    return sorted(found, key=lambda savepoint: (savepoint.at or 0, savepoint.id))


def savepoint_of(folder: DataPath, savepoint: str, now: int) -> Savepoint:
    """Return the savepoint with this id in any state. Raises UnknownSavepoint, InvalidSpec."""
    home = SavepointHome.of(folder, savepoint)
    if not is_folder(home.root):
        raise UnknownSavepoint(savepoint, [each.id for each in list_savepoints(folder, now)])
    return examine_savepoint(home, now)


def complete_savepoint(folder: DataPath, savepoint: str, now: int) -> tuple[SavepointHome, Manifest]:
    """Return a savepoint that must be complete. Raises UnknownSavepoint, InvalidSpec, UnusableSavepoint."""
    found = savepoint_of(folder, savepoint, now)
    if found.manifest is None or not found.is_complete:
        raise UnusableSavepoint(savepoint, f"it is {found.state}{f': {found.wrong}' if found.wrong else ''}")
    return found.home, found.manifest


def examine_savepoint(home: SavepointHome, now: int) -> Savepoint:
    """Examine the savepoint at ``home``. Never raises for a damaged file of it."""
    begun, failure = read_use_mark(home.begun), examine_data_json(home.failed).value
    try:
        manifest, damage = read_manifest(home), None
    except DamagedFile as error:
        manifest, damage = None, error.cause
    evidence = Evidence(
        manifest=None if manifest is None and damage is None else damage is None,
        failed=failure is not None,
        condemned=data_exists(home.condemned),
        begun_at=begun.at if begun else None,
        maker_lives=is_alive(begun.process) if begun else None,
    )
    cause = None if failure is None else str(failure.get("cause") or "it does not say")
    return Savepoint(home, judge_state(evidence, now), manifest, begun, damage or cause)


def plan_removal(savepoints: Sequence[Savepoint], home: StreamHome, policy: Policy, now: int) -> list[PruningVerdict]:
    """Decide on each savepoint of the stream of ``home``, in their order. Raises OSError, DamagedFile."""
    used, begun = being_read(savepoints, now), needed_to_go_on(home)
    needed = {
        **dict.fromkeys(list_beginnings(home), STARTED_FROM),
        **dict.fromkeys(begun, GONE_ON_WITH),
        **dict.fromkeys(used, BEING_READ),
    }
    return judge_savepoints(savepoints, needed, policy, now)


def judge_savepoints(
    savepoints: Sequence[Savepoint], needed: Mapping[str, str], policy: Policy, now: int
) -> list[PruningVerdict]:
    """Decide on each savepoint, in their order. ``needed``: why some must stay, whatever the policy says. Pure."""
    numbers, of_kind = dict[str, int](), Counter[SavepointKind | None]()
    for each in sorted(savepoints, key=lambda savepoint: (-(savepoint.at or 0), savepoint.id)):
        if each.is_complete:
            of_kind[each.kind] += 1
            numbers[each.id] = of_kind[each.kind]
    return [_verdict(each, numbers.get(each.id), needed.get(each.id), policy, now) for each in savepoints]


def _verdict(each: Savepoint, number: int | None, needed: str | None, policy: Policy, now: int) -> PruningVerdict:
    """Decide on a savepoint. ``number``: its place among those of its kind. ``needed``: why it must stay."""
    if each.state is SavepointState.MAKING:
        kept = "it is being made"
    elif needed or number is None:
        kept = needed or ""
    elif number <= max(policy.count, LEAST_KEPT):
        kept = f"it is number {number} of the newest"
    else:
        kept = "it is young" if each.at is None or now - each.at < policy.age_ms else ""
    old = f"it is {each.state}" if number is None else f"it is old, and number {number} of the newest"
    return PruningVerdict(each.id, goes=not kept, because=kept or old)


def newest_that_stay(
    savepoints: Sequence[Savepoint], verdicts: Sequence[PruningVerdict]
) -> list[tuple[SavepointHome, Manifest]]:
    """Return the newest remaining savepoint of each kind that loses one. The oldest come first."""
    goes = {verdict.id: verdict.goes for verdict in verdicts}
    going = {each.kind for each in savepoints if goes[each.id]}
    staying = [each for each in savepoints if not goes[each.id]]
    newest = {each.kind: (each.home, each.manifest) for each in staying if each.is_complete and each.manifest}
    return [each for kind, each in newest.items() if kind in going]


def list_condemned(
    savepoints: Sequence[Savepoint], verdicts: Sequence[PruningVerdict]
) -> list[tuple[Savepoint, PruningVerdict]]:
    """Return those to ``remove``: that go, or that a killed removal condemned although they are needed by now."""
    judged = zip(savepoints, verdicts, strict=True)
    return [(each, verdict) for each, verdict in judged if verdict.goes or each.state is SavepointState.REMOVING]


def being_read(savepoints: Iterable[Savepoint], now: int) -> set[str]:
    """Return the savepoints that a living process reads, or one that may live. Raises OSError."""
    return {each.id for each in savepoints if any(_is_working(reader, now) for reader in readers_of(each.home))}


def remove(home: SavepointHome, stream: StreamHome) -> str | None:
    """Remove the savepoint, or return why it is needed since the plan. Harmless when repeated."""
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
    now, begun = epoch_ms(), read_use_mark(home.begun)
    if any(_is_working(reader, now) for reader in readers_of(home)):
        return BEING_READ
    if home.id in list_beginnings(stream):
        return STARTED_FROM
    if home.id in needed_to_go_on(stream):
        return GONE_ON_WITH
    is_over = data_exists(home.manifest) or data_exists(home.failed)
    return f"it is {SavepointState.MAKING}" if begun and not is_over and _is_working(begun, now) else None


def needed_to_go_on(stream: StreamHome) -> set[str]:
    """Return the savepoint of the unfinished operation, if it has any. Raises DamagedFile, ControlUnreachable."""
    pending = pending_operation(stream)
    return {pending.savepoint} if pending is not None and pending.savepoint else set()


def _is_working(engaged: UseMark, now: int) -> bool:
    return is_at_work(is_alive(engaged.process), engaged.at, now)
