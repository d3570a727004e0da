"""The tables of a stream: made if they are missing, and marked as its own.

A table has one owner, a stream of one platform home, and refuses any other writer (docs/adr/0056).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from sessionizer.errors import DataAway, TableOwned
from sessionizer.home.data_files import list_names
from sessionizer.home.home_identity import owner_name
from sessionizer.spark.failures.query_failure import store_failure
from sessionizer.spark.internals.delta_log import applications, table_property
from sessionizer.spark.internals.java_errors import java_message
from sessionizer.spark.sinks.catalog import name_tables
from sessionizer.spark.sinks.tables import OWNER, ensure_tables, require_tables_fit, table_exists
from sessionizer.state.lineages.recorded_rows import has_recorded_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.spark.sinks.table_shapes import TableShape
    from sessionizer.stream_spec.document.stream import StreamSpec


def have_tables(
    spark: SparkSession, home: StreamHome, spec: StreamSpec, shapes: Iterable[TableShape], *, anew: bool = False
) -> None:
    """Make the stream's tables if missing, and require that no other stream writes them. Raises TableOwned.

    Raises DataAway for a table that has rows of the stream and is gone, unless it may be made ``anew``. Raises
    DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted, and InvalidSpec if a column misfits.
    """
    owner, ours = owner_name(home.name, home.control_base), home.streamed_locations(spec.sink.path)
    if not anew:
        _require_there(spark, home, spec, ours)
    claim_tables(spark, ours, owner, set(list_names(home.lineages)))
    ensure_tables(spark, shapes, ours, owner)
    require_ours(spark, ours, owner)
    name_tables(spark, spec.sink.table, home.table_locations(spec.sink.path), owner)


def require_own_tables_fit(
    spark: SparkSession, home: StreamHome, spec: StreamSpec, shapes: Iterable[TableShape]
) -> None:
    """Check the columns of the stream's tables as ``have_tables`` does, and write nothing. Raises InvalidSpec."""
    require_tables_fit(spark, shapes, home.streamed_locations(spec.sink.path))


def _require_there(spark: SparkSession, home: StreamHome, spec: StreamSpec, tables: Mapping[str, str]) -> None:
    for name, location in tables.items():
        if not table_exists(spark, name, location) and has_recorded_rows(home, spec.sink.path, name):
            raise DataAway(home.name, f"the table {name}", location)


def claim_tables(spark: SparkSession, tables: Mapping[str, str], owner: str, lineages: Collection[str]) -> None:
    """Mark each of the ``tables`` (name to location) that has no owner as that of ``owner``.

    One that was written before tables had owners is claimed only if none but ``lineages``, the owner's, wrote it.
    Raises TableOwned before any is marked, and DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted.
    """
    unmarked = []
    for name, location in tables.items():
        if not table_exists(spark, name, location):
            continue
        found = table_property(spark, location, OWNER)
        if found is None:
            strangers = sorted(applications(spark, location).difference(lineages))
            found = f"the stream of lineage {strangers[-1]}" if strangers else owner
            unmarked.append((name, location))
        _require(location, found, owner)
    for name, location in unmarked:
        _mark(spark, name, location, owner)


def require_ours(spark: SparkSession, tables: Mapping[str, str], owner: str) -> None:
    """Raise TableOwned if one of the ``tables``, all of them there, is not marked as that of ``owner``.

    Asked after they were made and claimed, because another driver may have done the same at the same time.
    """
    for location in tables.values():
        _require(location, table_property(spark, location, OWNER) or "nobody", owner)


def _mark(spark: SparkSession, name: str, location: str, owner: str) -> None:
    try:
        spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('{OWNER}' = '{owner}')")
    except PySparkException as error:
        _require(location, table_property(spark, location, OWNER) or owner, owner)
        raise store_failure(error, location, f"the owner of table {name}", java_message(error)) from error


def _require(location: str, found: str, owner: str) -> None:
    if found != owner:
        raise TableOwned(location, found, owner)
