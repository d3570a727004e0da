"""The batches that a Delta table has taken, read from the files of its log: no Spark, two or three small reads.

Each commit of a stream names its lineage and batch (Delta's ``txn``). The checksum beside a commit lists the newest
batch of every lineage. Without one, the commits are read back to the first.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.data_files import entries_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.home.data_root import DataPath

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKSUM: Final = re.compile(r"(\d{20})\.crc")


@dataclass(frozen=True, slots=True)
class TableLog:
    """The newest ``version`` of a table, and the newest batch of each lineage that wrote it.

    ``batches`` is None if the files do not tell, because the log was cut and its checkpoint has the rest.
    """

    version: int
    batches: Mapping[str, int] | None


def read_table_log(table: DataPath) -> TableLog | None:
    """Read the log of the table at that place, None if there is no table. Raises OSError."""
    names = [entry.name for entry in entries_in(table / "_delta_log")]
    commits = _versions(_COMMIT, names)
    if not commits:
        return None
    return TableLog(max(commits), _batches(table, commits, _versions(_CHECKSUM, names)))


def _batches(table: DataPath, commits: set[int], checksums: set[int]) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for version in range(max(commits), -1, -1):
        if version in checksums and (known := _read_checksum(table, version)) is not None:
            return _newest(found, known)
        if version not in commits:
            return None
        found = _newest(found, dict(_read_commit(table, version)))
    return found


def _read_checksum(table: DataPath, version: int) -> dict[str, int] | None:
    """Read the batches from a checksum, None if it does not list them.

    Not every writer does, and none lists very many.
    """
    try:
        listed = json.loads(_text(table, f"{version:020d}.crc")).get("setTransactions")
        return None if listed is None else {str(each["appId"]): int(each["version"]) for each in listed}
    except (ValueError, TypeError, KeyError, AttributeError):  # cut: the commits say the same
        return None


def _read_commit(table: DataPath, version: int) -> Iterator[tuple[str, int]]:
    for line in _text(table, f"{version:020d}.json").splitlines():
        action: dict[str, Any] = json.loads(line) if '"txn"' in line else {}
        if "txn" in action:
            yield str(action["txn"]["appId"]), int(action["txn"]["version"])


def _newest(found: Mapping[str, int], older: Mapping[str, int]) -> dict[str, int]:
    return {name: max(found.get(name, -1), older.get(name, -1)) for name in {*found, *older}}


def _text(table: DataPath, name: str) -> str:
    return (table / "_delta_log" / name).read_text(encoding="utf-8")


def _versions(pattern: re.Pattern[str], names: list[str]) -> set[int]:
    return {int(found[1]) for name in names if (found := pattern.fullmatch(name)) is not None}
