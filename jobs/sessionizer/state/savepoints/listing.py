"""List of the savepoints in a folder, complete or not, each with its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.records.process_records import is_alive
from sessionizer.errors import ControlUnreachable, DamagedFile, UnknownSavepoint, UnusableSavepoint
from sessionizer.home.data_files import data_exists, is_folder, list_entries
from sessionizer.home.names import is_identifier
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import SavepointHome
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, read_manifest
from sessionizer.state.savepoints.marker_files import read_failure, read_use_mark
from sessionizer.state.savepoints.savepoint_state import Evidence, SavepointState, judge_state

if TYPE_CHECKING:
    from sessionizer.home.roots import DataPath
    from sessionizer.state.savepoints.marker_files import SavepointFailure, UseMark


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
        raise UnknownSavepoint(savepoint, (each.id for each in list_savepoints(folder, now)))
    return examine_savepoint(home, now)


def complete_savepoint(folder: DataPath, savepoint: str, now: int) -> tuple[SavepointHome, Manifest]:
    """Return the savepoint with this id, which must be complete.

    Raises UnknownSavepoint, InvalidSpec, UnusableSavepoint.
    """
    found = savepoint_of(folder, savepoint, now)
    if found.manifest is None or not found.is_complete:
        raise UnusableSavepoint(savepoint, f"it is {found.state}{f': {found.wrong}' if found.wrong else ''}")
    return found.home, found.manifest


def examine_savepoint(home: SavepointHome, now: int) -> Savepoint:
    """Examine the savepoint at ``home``. Never raises for a damaged file of it."""
    begun, failure = read_use_mark(home.begun), read_failure(home)
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
    return Savepoint(home, judge_state(evidence, now), manifest, begun, damage or _said(failure))


def _said(failure: SavepointFailure | None) -> str | None:
    return failure.cause if failure else None
