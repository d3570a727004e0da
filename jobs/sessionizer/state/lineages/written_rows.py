"""Number of rows that each batch of a lineage wrote to a table, from the table's own log."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.data_files import entries_in

if TYPE_CHECKING:
    from sessionizer.home.data_root import DataPath

_COMMIT: Final = re.compile(r"\d{20}\.json")


def rows_of_batches(table: DataPath, lineage: str, first: int) -> dict[int, int]:
    """Return the rows by batch, from ``first`` on, as far back as the log is kept. Raises OSError, ValueError."""
    names = [entry for entry in entries_in(table / "_delta_log") if _COMMIT.fullmatch(entry.name)]
    rows: dict[int, int] = {}
    for commit in reversed(names):
        actions = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
        batch = next((_batch(action, lineage) for action in actions if "txn" in action), None)
        if batch is None:
            continue
        if batch < first:
            break
        rows[batch] = rows.get(batch, 0) + sum(map(_rows, actions))
    return rows


def _batch(action: dict[str, Any], lineage: str) -> int | None:
    return int(action["txn"]["version"]) if action["txn"]["appId"] == lineage else None


def _rows(action: dict[str, Any]) -> int:
    """Return the number of rows in a file that the commit adds."""
    stats = action.get("add", {}).get("stats")
    return int(json.loads(stats).get("numRecords", 0)) if stats else 0
