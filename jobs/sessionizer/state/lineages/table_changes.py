"""Changes of a stream's tables that the stream did not make, and the consistency of a state with its tables.

Each commit of a batch names its lineage. A command leaves its name and id with the commit. Commits that add and remove
no rows, as of OPTIMIZE, change nothing.

A table takes each batch of a lineage once and none that is lower than one it has. So a state that is older than its
tables would make batches that the tables skip, and their sessions would be lost (docs/adr/0123).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sessionizer.checkpoint.log_entries import read_begun_batch, read_last_commit
from sessionizer.control.records.operation_record import operation_ids
from sessionizer.errors import DataAway, RowsMissing, SessionizerError, StateBehindTables
from sessionizer.home.data_files import (
    DELTA_LOG,
    commit_at,
    commits_of,
    list_added_files,
    read_actions,
    read_data_text,
    read_transactions,
)
from sessionizer.home.json_record import JsonRecord, Moment, add_stamp, require_known_format
from sessionizer.home.record_file import read_json, write_json
from sessionizer.home.roots import ControlPath, DataPath, folder_at
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import examine_active, read_lineage
from sessionizer.lineage.batch_log import BatchLog, table_key
from sessionizer.state.lineages.origin import find_moved_rows, origins_of


@dataclass(frozen=True, slots=True)
class TableLog:
    """The newest ``version`` of a table, and the newest batch by lineage, None if the log was cut."""

    version: int
    batches: Mapping[str, int] | None


def read_table_log(table: DataPath) -> TableLog | None:
    """Read the log of the table at that place, None if there is no table. Raises OSError.

    The checksum beside a commit lists the newest batch of every lineage. Without one, the commits are read back to the
    first.
    """
    commits, found = commits_of(table), dict[str, int]()
    newest = max(commits, default=-1)
    for version in range(newest, -1, -1):
        known = _read_checksum(table / DELTA_LOG / f"{version:020d}.crc")
        if known is None and version not in commits:
            return TableLog(newest, None)
        older = known if known is not None else read_transactions(read_actions(commits[version]))
        found = {name: max(found.get(name, -1), older.get(name, -1)) for name in {*found, *older}}
        if known is not None:
            break
    return TableLog(newest, found) if commits else None


def _read_checksum(checksum: DataPath) -> dict[str, int] | None:
    """Read the batches from a checksum, None if there is none or it does not list them: none lists very many."""
    try:
        listed = json.loads(read_data_text(checksum)).get("setTransactions")
        return None if listed is None else {str(each["appId"]): int(each["version"]) for each in listed}
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):  # or cut: the commits say the same
        return None


def version_with_batch(table: DataPath, lineage: str, batch_id: int) -> int | None:
    """Return the newest version of ``table`` without rows of ``lineage`` after ``batch_id``, None if there is no table.

    Looks back no further than to the rows of ``lineage`` up to that batch, or to another lineage's rows before it.
    """
    commits = commits_of(table)
    found = max(commits, default=None)
    for version in sorted(commits, reverse=True):
        transactions = read_transactions(read_actions(commits[version]))
        if transactions.get(lineage, -1) > batch_id:
            found = version - 1
        elif any(not name.startswith(OF_DELETION) for name in transactions):
            break
    return found


def rows_of_batches(table: DataPath, lineage: str, first: int) -> dict[int, int]:
    """Return the rows by batch, from ``first`` on, as far back as the log is kept. Raises OSError, ValueError."""
    rows: dict[int, int] = {}
    for commit in reversed(commits_of(table).values()):
        actions = read_actions(commit)
        batch = read_transactions(actions).get(lineage)
        if batch is None:
            continue
        if batch < first:
            break
        rows.setdefault(batch, 0)
        for added in list_added_files(actions):
            with suppress(ValueError, TypeError, KeyError):  # Delta needs no statistics
                rows[batch] += int(json.loads(added["stats"])["numRecords"])
    return rows


def read_recorded_rows(home: StreamHome, folder: str | None, table: str) -> dict[str, int]:
    """Return the newest noted batch with rows in a table, of the active lineage and its parent."""
    active = read_lineage(home)
    lineages = filter(None, (active.lineage, active.parent) if active else ())
    found = {lineage: _newest_version(home, lineage, folder, table) for lineage in lineages}
    return {lineage: batch for lineage, batch in found.items() if batch is not None}


def has_recorded_rows(home: StreamHome, folder: str | None, table: str) -> bool:
    """Whether any lineage of the stream wrote rows to ``table``. Raises DamagedFile, OSError."""
    return any(_newest_version(home, lineage, folder, table) is not None for lineage in origins_of(home))


def accept_rows(home: StreamHome, folder: str | None, tables: Collection[str], unknown: Collection[str]) -> None:
    """Forget the rows that ``tables`` lack, and accept ``unknown`` lineages and operations. Raises UnwritablePath."""
    keys = {table_key(folder, table) for table in tables}
    active = read_lineage(home)
    for lineage in origins_of(home):
        log = BatchLog(home.lineage(lineage).batches)
        if keys & log.written.keys() or (active is not None and lineage == active.lineage):
            log.accept(keys, unknown)


def _newest_version(home: StreamHome, lineage: str, folder: str | None, table: str) -> int | None:
    return BatchLog(home.lineage(lineage).batches).written.get(table_key(folder, table))


OF_RETURN: Final = "operation-"
OF_DELETION: Final = "deletion-"
OF_OPERATION: Final = (OF_RETURN, OF_DELETION)
"""Starts of the application ids under which a command of ours brings rows back, and under which it deletes rows."""


def is_of_operation(application: str) -> bool:
    """Whether a command of ours made the transaction, not a batch."""
    return application.startswith(OF_OPERATION)


def writer_in(application: str) -> str:
    """Return the id of the operation, or the lineage, that made a transaction of ours."""
    return application.removeprefix(OF_RETURN).removeprefix(OF_DELETION)


_COMMAND: Final = re.compile(r"[a-z]+ \d{8}T\d{6}-[0-9a-f]{6}")
"""Note that a command of ours leaves with its commit, such as ``restore 20261121T105501-3fa9c2``."""


@dataclass(frozen=True, slots=True)
class TableChange(JsonRecord):
    """A foreign ``operation`` that made ``version`` of a table at ``at`` (epoch ms)."""

    table: str
    version: int
    operation: str
    at: Moment

    def __str__(self) -> str:
        """Format the change as text."""
        moment = datetime.fromtimestamp(self.at / 1000, UTC)
        return f"{self.operation} in {self.table}, its version {self.version}, {moment:%Y-%m-%d %H:%M:%S} UTC"


def list_changes_after(
    table: DataPath, name: str, version: int, lineages: Collection[str], *, cut: bool = False
) -> tuple[int, list[TableChange]]:
    """Return the newest version of the table, and the changes after ``version`` by others than ``lineages``.

    Reads one commit after the other. ``cut``: the log may have been cut after ``version``, so list it. Raises OSError,
    ValueError.
    """
    changes = []
    if cut:
        version = min((each for each in commits_of(table) if each > version), default=version + 1) - 1
    with suppress(FileNotFoundError):  # there is no newer one
        while True:
            actions = read_actions(commit_at(table, version + 1))
            version += 1
            changes += _list_changes(name, version, actions, lineages)
    return version, changes


def _list_changes(
    name: str, version: int, actions: Sequence[Mapping[str, Any]], lineages: Collection[str]
) -> list[TableChange]:
    by_kind = {kind: value for action in actions for kind, value in action.items()}
    writer, about = str(by_kind.get("txn", {}).get("appId", "")), by_kind.get("commitInfo", {})
    is_ours = writer in lineages or is_of_operation(writer) or _COMMAND.fullmatch(str(about.get("userMetadata", "")))
    if is_ours or not any(action.get(kind, {}).get("dataChange") for action in actions for kind in ("add", "remove")):
        return []
    return [TableChange(name, version, str(about.get("operation", "a change")), int(about.get("timestamp", 0)))]


KEPT: Final = 5
"""Changes that are kept for `status`."""
_LOOKED, _CHANGES = "looked", "changes"


class NotifiedChanges:
    """Foreign changes that the driver saves, so that the next one reports only later changes."""

    def __init__(self, file: ControlPath) -> None:
        """Read the file. One that cannot be read counts as none. Raises DamagedFile for a file of a newer release."""
        self._file = file
        kept = read_json(file) or {}
        require_known_format(file, kept)
        try:
            self._looked = {str(place): int(version) for place, version in kept.get(_LOOKED, {}).items()}
            self._changes = tuple(TableChange.from_json(change) for change in kept.get(_CHANGES, []))
        except (AttributeError, TypeError, ValueError):
            self._looked, self._changes = {}, ()

    @property
    def changes(self) -> tuple[TableChange, ...]:
        """The newest changes, oldest first."""
        return self._changes

    def looked(self, table: str) -> int | None:
        """Return the version up to which the table at that place was checked, None for a new table."""
        return self._looked.get(table)

    def note(self, looked: Mapping[str, int], changes: list[TableChange]) -> None:
        """Note how far the tables were looked at, and the changes found. Raises UnwritablePath, DiskFull."""
        if not changes and self._looked.items() >= looked.items():
            return
        self._looked.update(looked)
        self._changes = (*self._changes, *changes)[-KEPT:]
        told = {_LOOKED: self._looked, _CHANGES: [change.to_json() for change in self._changes]}
        write_json(self._file, add_stamp(told), durable=False)


def changes_of_active(home: StreamHome) -> tuple[TableChange, ...]:
    """Read the foreign changes in the active lineage's tables for a command that only reads. Never raises."""
    told = examine_active(home, lambda home, lineage: NotifiedChanges(home.lineage(lineage).table_changes))
    return told.changes if told else ()


_LINEAGE: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
"""An id of ours: other programs may append by names of their own."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state that a driver would resume from, or a savepoint is made of.

    ``begun``: the newest batch whose input is settled. It may run again, with the same rows. ``committed``: the newest
    that is over. ``since``: the lineage whose beginning last brought the tables onto its path, by these records.
    ``known``: every lineage and operation that it knows, or that a user accepted.
    """

    stream: str
    lineage: str
    begun: int | None
    committed: int | None
    known: frozenset[str]
    since: str = ""

    @classmethod
    def read(cls, home: StreamHome, lineage: str | None) -> StreamState:
        """Read the state of ``lineage``, None for a stream that begins. Raises DamagedFile, OSError, ValueError."""
        origins = origins_of(home)
        known = operation_ids(home).union(origins)
        if lineage is None:
            return cls(home.name, "", None, None, known)
        checkpoint, accepted = home.checkpoint(lineage), BatchLog(home.lineage(lineage).batches).accepted
        begun, committed = read_begun_batch(checkpoint), read_last_commit(checkpoint)
        return cls(home.name, lineage, begun, committed, known | accepted, find_moved_rows(lineage, origins))


@dataclass(frozen=True, slots=True)
class TableState:
    """A table, the newest batch of each lineage in it, None if absent, and the newest that each noted."""

    name: str
    location: str
    batches: Mapping[str, int] | None
    written: Mapping[str, int]


def find_inconsistency(state: StreamState, table: TableState) -> SessionizerError | None:
    """Return the reason why the lineage of ``state`` cannot go on with ``table``, None if it can."""
    if table.batches is None:
        return DataAway(state.stream, f"the table {table.name}", table.location) if table.written else None
    newest, begun = table.batches.get(state.lineage, -1), -1 if state.begun is None else state.begun
    if newest > begun:
        return StateBehindTables(state.stream, table.location, state.lineage, newest, begun)
    for lineage, batch in table.written.items():
        # the batch that is not over is run again
        is_over = lineage != state.lineage or (state.committed is not None and batch <= state.committed)
        if is_over and table.batches.get(lineage, -1) < batch:
            return RowsMissing(state.stream, table.location, lineage, batch, table.batches.get(lineage))
    return None


def unknown_changes(state: StreamState, table: TableState) -> list[str]:
    """Return the lineages and operations that this home does not know, and that changed ``table`` since."""
    found = sorted({writer_in(name) for name in table.batches or ()})
    return [name for name in found if _LINEAGE.fullmatch(name) and name > state.since and name not in state.known]


def require_known_operations(state: StreamState, location: str) -> None:
    """Raise StateBehindTables if an unknown operation changed rows: that version lacks rows of the path."""
    log = read_table_log(folder_at(location))
    made = {name: number for name, number in ((log and log.batches) or {}).items() if is_of_operation(name)}
    for operation in unknown_changes(state, TableState("", location, made, {})):
        raise StateBehindTables(state.stream, location, operation, None, None)
