"""Verification of a savepoint: files that are missing, shorter, changed or foreign, and the remedy. Pure.

A savepoint that lost a file is lost as a whole, because half of the open events is worse than none. The remedy is
another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.home.stream_home import CHECKPOINT, GROUP_LOGS, OPEN_EVENTS, SEEN_FILES, TIMEOUTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sessionizer.state.savepoints.manifest import SavepointFile

WHAT_IT_HOLDS: Final = {
    OPEN_EVENTS: "open events",
    GROUP_LOGS: "open events as the key groups keep them",
    TIMEOUTS: "the clients' timeouts",
    SEEN_FILES: "the files that were read",
    CHECKPOINT: "the checkpoint",
    "begun.json": "who made it",
}
_LOG: Final = "/_delta_log/"
_NOT_OURS: Final = ".crc"
"""Delta adds checksums to a table's log when it likes."""


class Damage(StrEnum):
    """Damage that a file can have."""

    MISSING = "missing"
    CUT = "of another length"
    CHANGED = "changed"
    STRANGE = "not of this savepoint"
    UNREADABLE = "unreadable"
    UNFIT = "damaged"


@dataclass(frozen=True, slots=True)
class SavepointDamage:
    """A ``damage`` of the file at ``path``, with ``detail`` in words."""

    path: str
    damage: Damage
    detail: str

    def __str__(self) -> str:
        return f"{self.path} is {self.damage}: {self.detail}"


def findings(
    written: Iterable[SavepointFile],
    found: Iterable[SavepointFile],
    unreadable: Mapping[str, str],
    unfit: Mapping[str, str] | None = None,
) -> list[SavepointDamage]:
    """List where the files that are there differ from those that were written, by their names.

    ``unreadable``: files that are there, and why they cannot be read. ``unfit``: files that Hadoop's checksums
    beside them do not fit, and the names of those.
    """
    now = {file.path: file for file in found}
    wrong = [
        SavepointDamage(name, Damage.UNREADABLE, f"{cause}; it has {content_of_file(name)}")
        for name, cause in unreadable.items()
    ]
    for file in written:
        difference = _difference(file, now.pop(file.path, None))
        if difference is not None and file.path not in unreadable:
            wrong.append(difference)
    changed = {finding.path for finding in wrong}
    wrong += [
        SavepointDamage(hidden, Damage.UNFIT, f"Spark would not read {name}, which is unchanged. Remove {hidden}")
        for name, hidden in (unfit or {}).items()
        if name not in changed
    ]
    strange = [name for name in now if not name.endswith(_NOT_OURS)]
    wrong += [SavepointDamage(name, Damage.STRANGE, _strange(name)) for name in strange]
    return sorted(wrong, key=lambda each: each.path)


def _difference(file: SavepointFile, now: SavepointFile | None) -> SavepointDamage | None:
    if now == file:
        return None
    content = content_of_file(file.path)
    if now is None:
        return SavepointDamage(file.path, Damage.MISSING, f"it had {content}, {file.bytes:,} bytes")
    if now.bytes != file.bytes:
        return SavepointDamage(file.path, Damage.CUT, f"{now.bytes:,} bytes of {content}, and it had {file.bytes:,}")
    return SavepointDamage(
        file.path, Damage.CHANGED, f"{content}: its SHA-256 is {now.sha256[:12]}…, and was {file.sha256[:12]}…"
    )


def content_of_file(path: str) -> str:
    """Describe the content of a savepoint's file in words."""
    part = path.split("/", 1)[0]
    held = WHAT_IT_HOLDS.get(part, part)
    return f"the log of the table of {held}" if _LOG in path else held


def _strange(path: str) -> str:
    if _LOG in path:
        return "the table has been written since"
    return "it was not there when the savepoint was made"
