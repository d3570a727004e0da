"""Snapshot of a Delta table, read from its log without Spark: its data files, and what each says of its rows.

Delta's protocol fixes the form of the log: the newest checkpoint, and the commits after it. What a table may have
beyond the protocol's plain form (deletion vectors, renamed columns, partitions, checkpoints with sidecars) is left to
Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from sessionizer.errors import SessionizerError
from sessionizer.home.data_files import (
    COMMIT,
    DELTA_LOG,
    data_exists,
    list_added_files,
    list_names,
    open_data,
    read_actions,
    read_transactions,
)
from sessionizer.home.roots import DataPath, folder_at, is_uri

if TYPE_CHECKING:
    import pyarrow as pa

_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")
"""A whole checkpoint, one of several parts with their number, or one that is named by a UUID."""
_CLASSIC: Final = re.compile(r"\d{20}\.checkpoint(\.\d{10}\.\d{10})?\.parquet")
_OF_ACTIONS: Final = (
    "add.path", "add.stats", "add.deletionVector.storageType", "txn.appId", "txn.version", "metaData.id",
    "metaData.partitionColumns", "metaData.configuration", "sidecar.path",
)  # fmt: skip
"""Columns of a checkpoint that are read here."""


class SparkNeeded(Exception):
    """Raised for a fact that only Spark can tell, or whose failure Spark is to name."""


class VersionGone(Exception):
    """Raised if a version of a table cannot be read any more. Its text names the missing part."""


@contextmanager
def left_to_spark() -> Iterator[None]:
    """Raise SparkNeeded for any failure of reading in the block, because Spark may have another way to the files."""
    try:
        yield
    # ValueError: also what pyarrow says of a damaged file; a missing package or column ends here, too
    except (OSError, ImportError, ValueError, KeyError, TypeError, NotImplementedError) as error:
        raise SparkNeeded(str(error)) from error
    except SessionizerError as error:
        raise SparkNeeded(error.title) from error


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file of a table at ``path``, with Delta's ``stats`` of it: ``numRecords``, ``minValues`` and so on."""

    path: DataPath
    stats: Mapping[str, Any]

    def extent(self, column: str) -> tuple[Any, Any]:
        """Return the least and the greatest value of ``column``, None if unknown. A long text may be cut."""
        least, greatest = (self.stats.get(name, {}).get(column) for name in ("minValues", "maxValues"))
        return least, greatest

    def single_value(self, column: str) -> Any:  # noqa: ANN401  JSON
        """Return the value of ``column`` that all rows have, None if they differ or if it is unknown."""
        least, greatest = self.extent(column)
        has_nulls = self.stats.get("nullCount", {}).get(column) != 0
        return None if has_nulls or least != greatest else least

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read the ``columns``. Raises FileNotFoundError, OSError, KeyError, ValueError."""
        return _read_parquet(self.path, columns).select(list(columns))


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A version of a ``table``, with its ``files`` and the newest batch by lineage (``transactions``)."""

    table: DataPath
    files: tuple[TableFile, ...]
    transactions: Mapping[str, int]

    def first_gone(self, files: Iterable[TableFile]) -> str | None:
        """Return the name of the first of ``files`` that does not exist. Raises OSError."""
        names = set(list_names(self.table))
        for path in (file.path for file in files):
            if not (path.name in names if path.parent == self.table else data_exists(path)):
                return path.name
        return None


def read_snapshot(table: DataPath, version: int | None = None) -> TableSnapshot | None:
    """Read a ``version`` of the table, None for the newest. None if there is no table.

    Call it in ``left_to_spark``. Raises VersionGone, and SparkNeeded if the log of the newest version has a gap.
    """
    names = [name for name in list_names(table / DELTA_LOG) if version is None or name[:20] <= f"{version:020d}"]
    newest = max((int(match[1]) for match in map(COMMIT.fullmatch, names) if match), default=None)
    if newest is None and version is None:
        return None
    wanted = newest if version is None else version
    parts = parts_that_tell(names)
    commits = [int(part[:20]) for part in parts if COMMIT.fullmatch(part)]
    first = max((int(part[:20]) + 1 for part in parts if not COMMIT.fullmatch(part)), default=0)
    if newest is None or newest != wanted or commits != [*range(first, newest + 1)]:
        gone = f"its log does not have version {wanted} any more"
        raise SparkNeeded(gone) if version is None else VersionGone(gone)
    return _replay(table, parts)


def read_table_id(table: DataPath) -> str | None:
    """Return the id that the table was made with, None if there is no table. Raises SparkNeeded."""
    for part in reversed(parts_that_tell(list_names(table / DELTA_LOG))):
        for action in _actions_of(table / DELTA_LOG / part):
            if action.get("metaData"):
                return str(action["metaData"]["id"])
    return None


def parts_that_tell(names: Iterable[str]) -> list[str]:
    """Choose the ``names`` with all actions of a log: the newest whole checkpoint, and the commits after it."""
    checkpoints: dict[int, list[tuple[str, int]]] = {}
    commits: dict[int, str] = {}
    for name in sorted(names):
        if (commit := COMMIT.fullmatch(name)) is not None:
            commits[int(commit[1])] = name
        elif (part := _CHECKPOINT.fullmatch(name)) is not None:
            checkpoints.setdefault(int(part[1]), []).append((name, int(part[2] or 1)))
    whole = [version for version, parts in checkpoints.items() if len(parts) >= min(count for _, count in parts)]
    newest = max(whole, default=-1)
    told = [name for name, _ in checkpoints.get(newest, [])]
    return told + [name for version, name in commits.items() if version > newest]


def _replay(table: DataPath, parts: Iterable[str]) -> TableSnapshot:
    """Replay the ``parts`` of a log. Raises SparkNeeded for a table beyond the protocol's plain form."""
    added, transactions = dict[str, Mapping[str, Any]](), dict[str, int]()
    for part in parts:
        actions = _actions_of(table / DELTA_LOG / part)
        for action in actions:  # a file may be removed and added by the same commit
            added.pop((action.get("remove") or {}).get("path", ""), None)
            metadata = action.get("metaData") or {}
            mapping = dict(metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
            if metadata.get("partitionColumns") or mapping != "none":
                raise SparkNeeded("a table with partitions or renamed columns")
        added |= {each["path"]: each for each in list_added_files(actions)}
        transactions |= read_transactions(actions)
    if any(each.get("deletionVector") for each in added.values()):
        raise SparkNeeded("deletion vectors")
    files = [(unquote(path), json.loads(each.get("stats") or "{}")) for path, each in added.items()]
    found = (TableFile(folder_at(place) if is_uri(place) else table / place, stats) for place, stats in files)
    return TableSnapshot(table, tuple(found), transactions)


def _actions_of(file: DataPath) -> list[dict[str, Any]]:
    """Read the actions of a commit, or of a checkpoint or a part of one."""
    if COMMIT.fullmatch(file.name):
        return read_actions(file)
    if not _CLASSIC.fullmatch(file.name):
        raise SparkNeeded("a checkpoint with sidecars")
    rows = _read_parquet(file, _OF_ACTIONS).to_pylist()
    actions = [{kind: about for kind, about in row.items() if about is not None} for row in rows]
    if any("sidecar" in action for action in actions):
        raise SparkNeeded("a checkpoint with sidecars")
    return actions


def _read_parquet(path: DataPath, columns: Sequence[str]) -> pa.Table:
    """Read those of the ``columns`` that the file has. Raises FileNotFoundError, OSError, ValueError."""
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415  the driver has it, Airflow need not

    with open_data(path) as opened:
        return ParquetFile(opened).read(columns=list(columns))
