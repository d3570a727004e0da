"""A table has one owner, a stream of one platform home, and refuses any other writer (docs/adr/0056)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from sessionizer.errors import TableOwned
from sessionizer.spark.failures.query_failure import store_failure
from sessionizer.spark.internals.delta_log import applications, table_property
from sessionizer.spark.internals.java_errors import first_line
from sessionizer.spark.sinks.tables import OWNER, table_exists

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import SparkSession


def claim_tables(spark: SparkSession, tables: Mapping[str, str], owner: str, lineages: Collection[str]) -> None:
    """Mark each of the ``tables`` (name to location) that has no owner as that of ``owner``.

    One that was written before tables had owners is claimed only if none but ``lineages``, the owner's, wrote it.
    Raises TableOwned, before any is marked, and as ``store_failure``.
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
    """Raises TableOwned if one of the ``tables``, all of them there, is not marked as that of ``owner``.

    Asked after they were made and claimed: another driver may have done the same at the same time.
    """
    for location in tables.values():
        _require(location, table_property(spark, location, OWNER) or "nobody", owner)


def _mark(spark: SparkSession, name: str, location: str, owner: str) -> None:
    try:
        spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('{OWNER}' = '{owner}')")
    except PySparkException as error:
        _require(location, table_property(spark, location, OWNER) or owner, owner)
        raise store_failure(error, location, f"the owner of table {name}", first_line(error)) from error


def _require(location: str, found: str, owner: str) -> None:
    if found != owner:
        raise TableOwned(location, found, owner)
