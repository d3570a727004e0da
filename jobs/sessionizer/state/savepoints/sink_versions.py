"""The last version of a table without rows of later batches, from the table's own log.

Each commit of a stream names its lineage and batch (Delta's ``txn``). The form of the log is fixed by Delta's protocol.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from sessionizer.home.data_files import entries_in

if TYPE_CHECKING:
    from sessionizer.home.data_root import DataPath

COMMIT: Final = re.compile(r"(\d{20})\.json")


def version_with_batch(table: DataPath, lineage: str, batch_id: int) -> int | None:
    """Return the newest version of ``table`` without rows of ``lineage`` after ``batch_id``, None if there is no table.

    Looks back no further than to the rows of ``lineage`` up to that batch, or to another lineage's rows before it.
    """
    commits = _commits(table)
    if not commits:
        return None
    found = max(commits)
    for version in sorted(commits, reverse=True):
        transactions = _transactions(commits[version])
        if transactions.get(lineage, -1) > batch_id:
            found = version - 1
        elif transactions:
            break
    return found


def _commits(table: DataPath) -> dict[int, DataPath]:
    entries = entries_in(table / "_delta_log")
    named = ((COMMIT.fullmatch(entry.name), entry) for entry in entries)
    return {int(match[1]): entry for match, entry in named if match is not None}


def _transactions(commit: DataPath) -> dict[str, int]:
    """Return the version by application."""
    actions = (json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines() if '"txn"' in line)
    return {str(action["txn"]["appId"]): int(action["txn"]["version"]) for action in actions if "txn" in action}
