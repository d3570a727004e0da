"""Changes of a stream's table that the stream did not make, found in the files of the table's log.

Each commit of a batch names its lineage. A command leaves its name and id with the commit. Commits that add and remove
no rows, as of OPTIMIZE, change nothing.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.data_files import commit_at, commits_of, read_actions
from sessionizer.home.json_record import JsonRecord, Moment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sessionizer.home.roots import DataPath

_OPERATION: Final = "operation-"
"""Start of the application id under which a command of ours brings rows back."""
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
            change = _change(name, version, actions, lineages)
            changes += [] if change is None else [change]
    return version, changes


def _change(
    name: str, version: int, actions: Sequence[Mapping[str, Any]], lineages: Collection[str]
) -> TableChange | None:
    by_kind = {kind: value for action in actions for kind, value in action.items()}
    writer = str(by_kind.get("txn", {}).get("appId", ""))
    if writer in lineages or writer.startswith(_OPERATION):
        return None
    about = by_kind.get("commitInfo", {})
    if _COMMAND.fullmatch(str(about.get("userMetadata", ""))) or not any(map(_changes_rows, actions)):
        return None
    return TableChange(name, version, str(about.get("operation", "a change")), int(about.get("timestamp", 0)))


def _changes_rows(action: Mapping[str, Any]) -> bool:
    return any(bool(action.get(kind, {}).get("dataChange")) for kind in ("add", "remove"))
