"""Log of a Delta table, by its files: one for each commit, with an action a line. Delta's protocol fixes the form."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.data_files import entries_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sessionizer.home.data_root import DataPath

LOG: Final = "_delta_log"
_COMMIT: Final = re.compile(r"(\d{20})\.json$")


def commits_of(table: DataPath, named: re.Pattern[str] = _COMMIT) -> dict[int, DataPath]:
    """Return the files of the commits that are kept, by version, the oldest first. Empty without a table.

    ``named``: other files of a version, such as checkpoints. Raises OSError.
    """
    found = ((named.match(entry.name), entry) for entry in entries_in(table / LOG))
    return {int(match[1]): entry for match, entry in found if match is not None}


def newest_version(table: DataPath) -> int | None:
    """Return the newest version of the table, None if there is none. Raises OSError."""
    return max(commits_of(table), default=None)


def commit_at(table: DataPath, version: int) -> DataPath:
    """Return the file of a commit, which may be there or not."""
    return table / LOG / f"{version:020d}.json"


def actions_in(commit: DataPath) -> list[dict[str, Any]]:
    """Read the actions of a commit. Raises OSError, ValueError."""
    return [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines() if line.strip()]


def added_in(actions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the data files that the actions add."""
    return [action["add"] for action in actions if "add" in action]


def transactions_in(actions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the batch by lineage, because each commit of a stream names both (Delta's ``txn``)."""
    found = (action["txn"] for action in actions if "txn" in action)
    return {str(each["appId"]): int(each["version"]) for each in found}
