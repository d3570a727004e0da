"""A stream as values: its lineages, savepoints, tables and ledger of erasures, and the steps of each command."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from sessionizer.state.lineages.origin import NO_BATCH, Origin, Path, find_moved_rows, path_to
from sessionizer.state.lineages.table_changes import StreamState, TableState, unknown_changes
from sessionizer.state.restores.row_changes import RowChanges, changes_to, deletion_of_all
from support.histories.model_table import Gone, ModelTable, Row, select

NAMES = ("sessions", "quarantine")
KEYS: Final = 4
"""Every so many-th event has the same key."""
Folder: TypeAlias = str | None


class Refused(Exception):
    """The command says by name why it does nothing."""


@dataclass(frozen=True, slots=True)
class State:
    """What is kept after a batch: the events read so far, and those of them that are open."""

    read: int = 0
    open: frozenset[int] = frozenset()


@dataclass(slots=True)
class ModelLineage:
    """``states``: after each committed batch. ``planned``: the end of a batch that is not committed, if any."""

    name: str
    first: State
    states: list[State] = field(default_factory=list)
    planned: int | None = None
    sink: Folder = None
    former: tuple[Folder, ...] = ()
    versions: dict[tuple[Folder, str], int] = field(default_factory=dict)
    """Of the tables, before the restore that made it."""

    @property
    def state(self) -> State:
        return self.states[-1] if self.states else self.first

    @property
    def newest(self) -> int:
        return len(self.states) - 1


@dataclass(frozen=True, slots=True)
class ModelSavepoint:
    lineage: str
    batch_id: int
    state: State
    sink: Folder
    versions: dict[tuple[Folder, str], int | None]
    path: Path
    is_native: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command that was begun: what it is called, the savepoint's number for a restore, the key for an erasure."""

    name: str
    savepoint: int = 0
    key: int = 0


@dataclass(frozen=True, slots=True)
class ModelErasure:
    """The events of ``key`` before the event ``until`` are erased. ``lineages``: those that were there before."""

    key: int
    until: int
    lineages: frozenset[str]
    is_swept: bool = False

    def has(self, number: int) -> bool:
        return number % KEYS == self.key and number < self.until


@dataclass(slots=True)
class ModelStream:
    """All there is of one stream. ``rule``: which rows a restore and a rollback change."""

    rule: Callable[[Path, Path, dict[str, Origin | None]], RowChanges] = changes_to
    events: int = 0
    lineages: dict[str, ModelLineage] = field(default_factory=dict)
    origins: dict[str, Origin | None] = field(default_factory=dict)
    savepoints: list[ModelSavepoint | None] = field(default_factory=list)
    saving: ModelSavepoint | None = None
    """One that was begun, and whose manifest is not written."""
    backup: tuple[dict[str, Origin | None], str, int, frozenset[str]] | None = None
    """The records of the lineages, the active one, the number of folders, and the operations, as they were once."""
    was_put_back: bool = False
    """Whether the records are those of a backup. They may be put back once."""
    tables: dict[tuple[Folder, str], ModelTable] = field(default_factory=dict)
    active: str = ""
    folders: int = 0
    operation: str = ""
    operations: frozenset[str] = frozenset()
    """Those of which the home has a record."""
    pending: Command | None = None
    made: str | None = None
    """The lineage that the pending command has made."""
    names: int = 0
    erasures: dict[str, ModelErasure] = field(default_factory=dict)
    """The ledger, by the operation."""
    sweeping: Iterator[str] | None = None
    """The sweep of the oldest erasure that is not swept, at the step where it is."""
    _has_changed_rows: bool = False
    _until: int = 0
    """The first event after the approval of the pending command."""
    _before: dict[tuple[Folder, str], int] | None = None
    """Versions that the pending restore found at its first try."""

    def __post_init__(self) -> None:
        self.active = self._lineage(State(), None, None)

    def feed(self, events: int) -> None:
        self.events += events

    def run(self, *, most: int, dies_after: int | None = None) -> None:
        """Run a driver over all that is there, ``most`` events a batch; it dies after so many writes of one batch."""
        self._require_none_pending()
        if self.unknown_changes():
            raise Refused("the state is older than its tables")
        lineage = self.lineages[self.active]
        while lineage.planned is not None or lineage.state.read < self.events:
            if lineage.planned is None:
                lineage.planned = min(self.events, lineage.state.read + most)
            after, rows = self._batch(lineage, lineage.planned)
            for number, name in enumerate(NAMES):
                if number == dies_after:
                    return
                self._table(lineage.sink, name).append(rows[name], lineage.name, lineage.newest + 1)
            if dies_after is not None:
                return
            lineage.states.append(after)
            lineage.planned = None

    def save(self, *, native: bool = False) -> None:
        self.begin_save(native=native)
        self.finish_save()

    def begin_save(self, *, native: bool = False) -> None:
        """Take the newest batch and the versions of the tables together. Raises Refused."""
        self._require_none_pending()
        lineage = self.lineages[self.active]
        if not lineage.states:
            raise Refused("nothing to save")
        if self.unknown_changes().difference(self.lineages):
            raise Refused("an operation that no record knows changed the tables")
        batch = lineage.newest
        versions = {
            (folder, name): self._table(folder, name).version_with_batch(lineage.name, batch)
            for folder in self._folders()
            for name in NAMES
        }
        path = path_to(lineage.name, batch, self.origins)
        self.saving = ModelSavepoint(lineage.name, batch, lineage.state, lineage.sink, versions, path, native)

    def finish_save(self) -> None:
        saving, self.saving = self.saving, None
        self._require_none_pending()
        if saving is None or saving.lineage != self.active:
            raise Refused("a command moved the stream meanwhile")
        self.savepoints.append(saving)

    def back_up(self) -> None:
        self._require_none_pending()
        self.backup = (dict(self.origins), self.active, self.folders, self.operations)

    def unknown_changes(self) -> set[str]:
        """The lineages and operations that changed a table later than the records of the home know."""
        since = find_moved_rows(self.active, self.origins)
        state = StreamState("", self.active, None, None, self.operations.union(self.origins), since)
        tables = (TableState("", "", table.transactions, {}) for table in self.tables.values())
        return {name for table in tables for name in unknown_changes(state, table)}

    def put_back(self) -> None:
        """Put the records back, and nothing else. Raises Refused."""
        self._require_none_pending()
        if self.was_put_back or self.backup is None or self.backup[2] != self.folders:
            raise Refused("there is no backup that knows the folders of the tables, or it was put back before")
        if self.erasures:
            raise Refused("a backup of before an erasure is out of its reach")
        self.origins, self.active, _, self.operations = dict(self.backup[0]), *self.backup[1:]
        self.was_put_back = True

    def put_back_and_restore(self, number: int) -> None:
        """Put the records back, and restore to a savepoint, whose lineage they may lack. Raises Refused."""
        self.put_back()
        self.begin(Command("restore", number))

    def begin(self, command: Command, *, dies_at: int | None = None) -> None:
        """Carry a command out; it dies before that step, if it comes to it. Raises Refused."""
        self._require_none_pending()
        self.operation = self._id()
        self.operations |= {self.operation}
        self._until = self.events
        self._carry_out(command, dies_at)

    def resume(self, *, dies_at: int | None = None) -> None:
        """Type the command that is pending again. Raises Refused."""
        if self.pending is None:
            raise Refused("nothing is pending")
        if self.made is not None and self.made != self.active:
            self._remove_made()
        self._carry_out(self.pending, dies_at)

    def give_up(self) -> None:
        """Abandon the pending command while no row has changed. Raises Refused."""
        if self.pending is None or self.made is None or self.made == self.active or self._has_changed_rows:
            raise Refused("there is nothing to give up")
        self._remove_made()
        self.pending = self._before = None

    def _carry_out(self, command: Command, dies_at: int | None) -> None:
        try:
            for number, _ in enumerate(self._steps(command)):
                self.pending = command
                if number == dies_at:
                    return
        except Refused:
            if self.pending is None:
                raise
            self._remove_made()
            raise
        self.pending = self.made = self._before = None
        self._has_changed_rows = False

    def _steps(self, command: Command) -> Iterator[str]:
        match command.name:
            case "restore":
                return self.restore(command.savepoint)
            case "rollback":
                return self.rollback()
            case "rescale":
                return self.rescale()
            case "erase":
                return self.erase(command.key)
            case _:
                return self.start_over()

    def _remove_made(self) -> None:
        if self.made is not None:
            del self.lineages[self.made], self.origins[self.made]
            self.made = None

    def _require_none_pending(self) -> None:
        if self.pending is not None:
            raise Refused("a command is pending")

    def restore(self, number: int) -> Iterator[str]:
        if self.made is not None:
            return
        savepoint = self.savepoints[number]
        if savepoint is None:
            raise Refused("an erasure has removed it")
        target, leaves = savepoint.path, self.active
        changes = self.rule(target, path_to(leaves, None, self.origins), self.origins)
        self._require_readable(changes, savepoint.versions)
        path = () if savepoint.lineage in self.origins else target[:-1]
        origin = Origin("restore", 0, savepoint.lineage, savepoint.batch_id, str(number), leaves, path=path)
        new = self._made(savepoint.state, origin, savepoint.sink)
        if self._before is None:
            self._before = {at: len(each.versions) - 1 for at, each in self.tables.items() if each.versions}
        self.lineages[new].versions = self._before
        yield "made"
        yield from self._changed(changes, savepoint.versions)
        self.active = new
        yield "activated"

    def rollback(self) -> Iterator[str]:
        leaves = self.active
        origin, versions = self.origins[leaves], self.lineages[leaves].versions
        if origin is None or origin.before is None or origin.batch_id == NO_BATCH:
            raise Refused("no way back")
        before = self.lineages[origin.before]
        if not before.states:
            raise Refused("it has no batch")
        target, active = path_to(before.name, None, self.origins), path_to(leaves, None, self.origins)
        changes = self.rule(target, active, self.origins)
        if not self._has_changed_rows:
            self._require_readable(changes, versions)
        yield from self._changed(changes, versions)
        self.active = before.name

    def rescale(self) -> Iterator[str]:
        """Go on in a new lineage with the same state; so do a switch and an apply with a way back."""
        if self.made is None:
            lineage = self._handed_over()
            new = self._made(lineage.state, Origin("rescale", 0, lineage.name, lineage.newest), lineage.sink)
            yield "made"
            self.active = new
            yield "activated"

    def _handed_over(self) -> ModelLineage:
        lineage = self.lineages[self.active]
        if not lineage.states or self._is_half_written(lineage):
            raise Refused("nothing to hand over, or a batch was cut short")
        return lineage

    def erase(self, key: int) -> Iterator[str]:
        if self.made is None:
            lineage, before = self._handed_over(), frozenset(self.lineages)
            erasure = ModelErasure(key, self._until, before)
            open_events = frozenset(number for number in lineage.state.open if not erasure.has(number))
            origin = Origin("erase", 0, lineage.name, lineage.newest)
            new = self._made(State(lineage.state.read, open_events), origin, lineage.sink)
            yield "made"
            self.erasures[self.operation], self._has_changed_rows = erasure, True
            yield "noted"
            self.active = new
            yield "activated"
        for name, each in self.lineages.items():
            if name != self.active:
                each.states, each.planned = [], None
                yield "checkpoint removed"

    def sweep(self, steps: int) -> None:
        """Sweep the oldest erasure that is not swept, for so many steps. Raises Refused if there is none."""
        if self.sweeping is None:
            unswept = next((number for number, each in self.erasures.items() if not each.is_swept), None)
            if unswept is None:
                raise Refused("all are swept")
            self.sweeping = self._sweep(unswept)
        for _ in range(steps):
            if next(self.sweeping, None) is None:
                self.sweeping = None
                return

    def _sweep(self, operation: str) -> Iterator[str]:
        erasure = self.erasures[operation]
        for table in list(self.tables.values()):
            table.delete_where(lambda row: erasure.has(row.number))
            yield "rows deleted"
            table.vacuum()
            yield "old files removed"
        for number, saved in enumerate(self.savepoints):
            if saved is None:
                continue
            if self.pending is not None and self.pending.name == "restore" and self.pending.savepoint == number:
                return  # it is typed again later
            open_events = frozenset(each for each in saved.state.open if not erasure.has(each))
            if saved.is_native and saved.lineage in erasure.lineages:
                self.savepoints[number] = None
            elif not saved.is_native:
                self.savepoints[number] = replace(saved, state=State(saved.state.read, open_events))
            yield "savepoint swept"
        self.erasures[operation] = replace(erasure, is_swept=True)

    def _is_erased(self, number: int, *, swept: bool | None = None) -> bool:
        return any(each.has(number) for each in self.erasures.values() if swept in {None, each.is_swept})

    def _without_erased(self, state: State) -> State:
        return State(state.read, frozenset(number for number in state.open if not self._is_erased(number)))

    def move_sink(self, *, home: bool) -> None:
        """Change ``sink.path`` in place: to a new folder, or back to the stream's own data."""
        self._require_none_pending()
        lineage = self._handed_over()
        self.folders += 1
        lineage.former = (*lineage.former, lineage.sink)
        lineage.sink = None if home else f"folder {self.folders}"

    def start_over(self) -> Iterator[str]:
        if self.made is None:
            lineage = self.lineages[self.active]
            if not lineage.states:
                raise Refused("it never ran")
            newest = self.events - 1
            read = State(self.events, frozenset({newest} if newest >= 0 else ()))
            self._made(read, Origin("seed", 0, lineage.name, NO_BATCH), lineage.sink)
            yield "made"
            yield from self._changed(deletion_of_all(self.origins), {})
            assert self.made is not None
            self.active = self.made
            yield "activated"
        seeded = self.lineages[self.active]
        _, rows = self._batch(replace(seeded, first=State(), states=[]), seeded.state.read)
        for name in NAMES:
            self._table(seeded.sink, name).append(rows[name], seeded.name, 0)
            yield f"{name} written"

    def vacuum(self) -> None:
        """Remove the files of all versions but the newest."""
        for table in self.tables.values():
            table.vacuum()

    def require_exact(self) -> None:
        """The tables hold what was read and is closed, each event once, whatever came before."""
        lineage = self.lineages[self.active]
        there = {number for number in range(lineage.state.read) if not self._is_erased(number)}
        closed = there - lineage.state.open
        half = lineage.newest + 1
        refused = {number for number in there if number % 3 == 0}
        for name, wanted in {"sessions": closed, "quarantine": refused}.items():
            found = [
                row.number
                for (_, table), each in self.tables.items()
                if table == name
                for row in each.rows
                if (row.lineage, row.batch_id) != (lineage.name, half) and not self._is_erased(row.number, swept=False)
            ]
            assert sorted(found) == sorted(wanted), f"{name}: {sorted(found)} instead of {sorted(wanted)}"
        assert not any(map(self._is_erased, lineage.state.open))
        self._require_erased()

    def _require_erased(self) -> None:
        """Assert that no swept event is in a readable version of a table, a checkpoint or a savepoint."""
        kept = [state for each in self.lineages.values() for state in each.states]
        kept += [saved.state for saved in self.savepoints if saved is not None]
        numbers = {number for state in kept for number in state.open}
        for table in self.tables.values():
            numbers |= {row.number for rows, _ in table.versions[table.oldest :] for row in rows}
        left = sorted(number for number in numbers if self._is_erased(number, swept=True))
        assert not left, f"{left} are erased"

    def _made(self, first: State, origin: Origin, sink: Folder) -> str:
        self.made = self._lineage(self._without_erased(first), origin, sink)
        return self.made

    def _lineage(self, first: State, origin: Origin | None, sink: Folder) -> str:
        name = self._id()
        states = [] if origin is None else [first]  # its batch 0 begins with the state
        self.lineages[name] = ModelLineage(name, first, states, sink=sink)
        self.origins[name] = origin
        return name

    def _id(self) -> str:
        self.names += 1
        return f"20261101T000000-{self.names:06x}"

    def _changed(self, changes: RowChanges, versions: Mapping[tuple[Folder, str], int | None]) -> Iterator[str]:
        """As ``table_rows.change_rows``: rows come back before others leave, a table at a time."""
        self._has_changed_rows = True
        changes = self._complete(changes)
        for folder in self._folders():
            for name in NAMES:
                table = self._table(folder, name)
                back = self._coming_back(table, changes, versions.get((folder, name)))
                if back:
                    table.append(back, f"operation-{self.operation}", 0)
                yield f"{name} brought back"
                table.delete(changes.deleted_rows, f"deletion-{self.operation}")
                yield f"{name} deleted"

    def _complete(self, changes: RowChanges) -> RowChanges:
        since = find_moved_rows(self.active, self.origins)
        changes = replace(changes, operations=self.operations, since=since)
        return changes.add_writers(name for table in self.tables.values() for name in table.transactions)

    def _coming_back(self, table: ModelTable, changes: RowChanges, version: int | None) -> frozenset[Row]:
        if not changes.missing or version is None:
            return frozenset()
        there = {row[:2] for row in select(table.rows, changes.missing_rows)}
        return frozenset(row for row in select(table.at(version), changes.missing_rows) if row[:2] not in there)

    def _batch(self, lineage: ModelLineage, end: int) -> tuple[State, dict[str, frozenset[Row]]]:
        """The state after a batch that reads up to ``end``, and the rows that it writes to each table."""
        before, batch = lineage.state, lineage.newest + 1
        read = {number for number in range(before.read, end) if not self._is_erased(number)}
        there = {*before.open, *read}
        after = State(end, frozenset(there & {end - 1}))
        return after, {
            "sessions": frozenset(Row(lineage.name, batch, number) for number in there - after.open),
            "quarantine": frozenset(Row(lineage.name, batch, number) for number in read if number % 3 == 0),
        }

    def _require_readable(self, changes: RowChanges, versions: Mapping[tuple[Folder, str], int | None]) -> None:
        changes = self._complete(changes)
        if changes.missing and not all(each.is_swept for each in self.erasures.values()):
            raise Refused("a sweep would remove the versions with rows that come back")
        try:
            for (folder, name), version in versions.items():
                self._coming_back(self._table(folder, name), changes, version)
        except Gone as error:
            raise Refused("rows cannot come back") from error

    def _is_half_written(self, lineage: ModelLineage) -> bool:
        begun = lineage.newest + 1
        known = (table.transactions.get(lineage.name, -1) for table in self.tables.values())
        return lineage.planned is not None and any(version >= begun for version in known)

    def _folders(self) -> list[Folder]:
        found = (folder for each in self.lineages.values() for folder in (*each.former, each.sink))
        return list(dict.fromkeys(found))

    def _table(self, folder: Folder, name: str) -> ModelTable:
        return self.tables.setdefault((folder, name), ModelTable())


HISTORIES: Final = {
    "to an older savepoint, then to a newer one": "feed 3, run, save, feed 4, run, save, restore 0, restore 1",
    "to a lineage that was rolled back": "feed 2, run, rescale, feed 2, run, save, rollback, feed 2, run, restore 0",
    "to before a seed that deleted all rows": "feed 3, run, save, start_over, restore 0",
    "to before sink.path changed": "feed 3, run, save, move_sink, feed 2, run, restore 0",
    "to a lineage that a home from a backup does not know": (
        "feed 3, run, back_up, rescale, feed 2, run, save, put_back_and_restore 0"
    ),
}
"""Restores that lost or doubled sessions once. A step is a word and, of a few, its number."""


def play(history: str, acts: Mapping[str, Callable[..., object]]) -> None:
    for step in history.split(", "):
        word, *number = step.split()
        acts[word](*map(int, number))
