"""The batches that a Delta table has taken, read from the files of its log: no Spark, two or three small reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessionizer.home.data_files import (
    DELTA_LOG,
    commits_of,
    list_added_files,
    read_actions,
    read_data_text,
    read_transactions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.roots import DataPath


@dataclass(frozen=True, slots=True)
class TableLog:
    """The newest ``version`` of a table, and the newest batch of each lineage that wrote it.

    ``batches`` is None if the files do not tell, because the log was cut and its checkpoint has the rest.
    """

    version: int
    batches: Mapping[str, int] | None


def read_table_log(table: DataPath) -> TableLog | None:
    """Read the log of the table at that place, None if there is no table. Raises OSError.

    The checksum beside a commit lists the newest batch of every lineage. Without one, the commits are read back to the
    first.
    """
    commits = commits_of(table)
    return TableLog(max(commits), _batches(table, commits)) if commits else None


def _batches(table: DataPath, commits: Mapping[int, DataPath]) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for version in range(max(commits), -1, -1):
        known = _read_checksum(table / DELTA_LOG / f"{version:020d}.crc")
        if known is not None:
            return _newest(found, known)
        if version not in commits:
            return None
        found = _newest(found, read_transactions(read_actions(commits[version])))
    return found


def _read_checksum(checksum: DataPath) -> dict[str, int] | None:
    """Read the batches from a checksum, None if there is none or it does not list them: none lists very many."""
    try:
        listed = json.loads(read_data_text(checksum)).get("setTransactions")
        return None if listed is None else {str(each["appId"]): int(each["version"]) for each in listed}
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):  # or cut: the commits say the same
        return None


def _newest(found: Mapping[str, int], older: Mapping[str, int]) -> dict[str, int]:
    return {name: max(found.get(name, -1), older.get(name, -1)) for name in {*found, *older}}


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
        elif transactions:
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
        rows[batch] = rows.get(batch, 0) + sum(map(_rows, list_added_files(actions)))
    return rows


def _rows(added: Mapping[str, Any]) -> int:
    """Return the number of rows in a file that the commit adds."""
    stats = added.get("stats")
    try:
        return int(json.loads(stats)["numRecords"]) if stats else 0
    except (ValueError, TypeError, KeyError):  # Delta needs none
        return 0
