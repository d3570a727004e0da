"""Delta tables by their files: the log, which has a file for each commit and an action a line, and queries to paste.

Delta's protocol fixes the form of the log.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.data_files import entries_in
from sessionizer.home.roots import is_uri

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sessionizer.home.roots import DataPath


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


QUESTIONS: Final = {
    "sessions": "select client, close_reason, count(*) as sessions, round(avg(duration_ms) / 1000, 1) as seconds "
    "from {table} group by all order by all",
    "quarantine": "select reason, count(*) as n from {table} group by all order by n desc",
    "late_events": "select date, count(*) as n from {table} group by all order by all",
    "sessions_daily": "select * from {table} order by date desc, sessions desc limit 20",
}
"""A query for each table, in words that Spark, DuckDB and Polars all understand."""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The place of a table, its newest version, and queries.

    Without a version the table is absent or on another machine.
    """

    name: str
    path: str
    version: int | None
    spark_sql: str
    duckdb: str
    polars: str

    @property
    def may_be_there(self) -> bool:
        """Whether the table may exist. A table at a URI is not looked up."""
        return self.version is not None or is_uri(self.path)


def place_of(name: str, path: str) -> TablePlace:
    """Return the place, version and queries of the table ``name`` at ``path``."""
    question = QUESTIONS[name]
    query = question.format(table=name)
    duckdb = f"{name} = deltalake.DeltaTable({path!r}).to_pyarrow_table(); print(duckdb.sql({query!r}))"
    polars = f"print({_frame_of_polars(path)}.sql({_rewrite_for_polars(query, name)!r}).collect())"
    return TablePlace(
        name=name,
        path=path,
        version=_visible_version(path),
        spark_sql=question.format(table=f"delta.`{path}`") + ";",
        duckdb=_python(f"import deltalake, duckdb; {duckdb}"),
        polars=_python(f"import deltalake, polars as pl; {polars}"),
    )


def _visible_version(path: str) -> int | None:
    with suppress(OSError):
        return None if is_uri(path) else newest_version(Path(path))
    return None


def _frame_of_polars(path: str) -> str:
    """Return Python code for the table as a lazy frame. Polars itself cannot read HDFS."""
    if path.startswith("hdfs://"):
        return f"pl.from_arrow(deltalake.DeltaTable({path!r}).to_pyarrow_table()).lazy()"
    return f"pl.scan_delta({path!r})"


def _rewrite_for_polars(query: str, name: str) -> str:
    """Rewrite the query for Polars, where a lazy frame calls itself ``self``."""
    return query.replace(f"from {name}", "from self")


def _python(program: str) -> str:
    """Return a command line for ``program``, in double quotes because the program contains single ones."""
    quoted = re.sub(r'([\\$`"])', r"\\\1", program)
    return f'{shlex.quote(sys.executable)} -c "{quoted}"'
