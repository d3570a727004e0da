"""The places of a stream's Delta tables, and queries to paste for each of them."""

import re
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sessionizer.home.data_files import newest_version
from sessionizer.home.names import LATE_EVENTS, OPEN_SESSIONS, QUARANTINE, SESSIONS, SESSIONS_DAILY, STREAM_HISTORY
from sessionizer.home.roots import is_uri
from sessionizer.home.stream_home import StreamHome
from sessionizer.stream_spec.document.names import catalog_names
from sessionizer.stream_spec.document.stream import Sink

QUESTIONS: Final = {
    SESSIONS: "select client, close_reason, count(*) as sessions, round(avg(duration_ms) / 1000, 1) as seconds "
    "from {table} group by all order by all",
    QUARANTINE: "select reason, count(*) as n from {table} group by all order by n desc",
    LATE_EVENTS: "select date, count(*) as n from {table} group by all order by all",
    SESSIONS_DAILY: "select * from {table} order by date desc, sessions desc limit 20",
    OPEN_SESSIONS: "select client, count(*) as sessions, sum(event_count) as events, min(due_at) as first_due "
    "from {table} group by all order by all",
    STREAM_HISTORY: "select * from {table} where kind <> 'minute' order by at desc limit 20",
}
"""A query for each table, in words that Spark, DuckDB and Polars all understand."""


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The place of a table, its version (None: absent, or elsewhere), queries, and its name in Spark's catalog."""

    name: str
    path: str
    version: int | None
    spark_sql: str
    duckdb: str
    polars: str
    catalog_name: str | None = None

    @property
    def may_be_there(self) -> bool:
        """Whether the table may exist. A table at a URI is not looked up."""
        return self.version is not None or is_uri(self.path)


def table_places(home: StreamHome, sink: Sink) -> list[TablePlace]:
    """Return the places of the tables, as ``sink`` says. Open sessions have one only if asked for, or there."""
    names = {} if sink.table is None else catalog_names(sink.table)
    found = [table_place(name, path, names.get(name)) for name, path in home.table_locations(sink.path).items()]
    is_on = sink.open_sessions_every_ms is not None
    return [each for each in found if each.name != OPEN_SESSIONS or is_on or each.version is not None]


def table_place(name: str, path: str, catalog_name: str | None = None) -> TablePlace:
    """Return the place, version and queries of the table ``name`` at ``path``. Spark asks by ``catalog_name``."""
    question = QUESTIONS[name]
    query = question.format(table=name)
    duckdb = f"{name} = deltalake.DeltaTable({path!r}).to_pyarrow_table(); print(duckdb.sql({query!r}))"
    in_polars = query.replace(f"from {name}", "from self")  # the name of a lazy frame for itself
    polars = f"print({_frame_of_polars(path)}.sql({in_polars!r}).collect())"
    return TablePlace(
        name=name,
        path=path,
        version=_visible_version(path),
        spark_sql=question.format(table=catalog_name or f"delta.`{path}`") + ";",
        duckdb=_python(f"import deltalake, duckdb; {duckdb}"),
        polars=_python(f"import deltalake, polars as pl; {polars}"),
        catalog_name=catalog_name,
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


def _python(program: str) -> str:
    """Return a command line for ``program``, in double quotes because the program contains single ones."""
    quoted = re.sub(r'([\\$`"])', r"\\\1", program)
    return f'{shlex.quote(sys.executable)} -c "{quoted}"'
