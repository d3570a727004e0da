"""Names of a stream's tables in Spark's catalog, each of an external table at the place that the stream writes to.

Only a job that makes tables asks the catalog: a driver's start, an apply, a seed, a report. Batches and the other
commands go by the place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException, PySparkException

from sessionizer.errors import InvalidSpec, StoreUnreachable
from sessionizer.home.names import SESSIONS
from sessionizer.spark.failures.query_failure import store_failure
from sessionizer.spark.internals.delta_log import table_property
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.sinks.tables import OWNER, table_exists
from sessionizer.stream_spec.document.names import catalog_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

FIELD: Final = "sink.table"
_OWN: Final = "spark_catalog"
_KIND: Final = "spark.sql.catalogImplementation"
_NO_DELTA: Final = "[DELTA_MISSING_DELTA_TABLE]"
_NO_TABLE: Final = ("[DELTA_PATH_DOES_NOT_EXIST]", "[DELTA_TABLE_NOT_FOUND]")
_ANY_COLUMNS: Final = {"spark.databricks.delta.alterLocation.bypassSchemaCheck": "true"}
"""Setting by which a name moves to a table with other columns, because columns come with the spec."""
_FILE: Final = "file:"


def name_tables(spark: SparkSession, table: str | None, locations: Mapping[str, str], owner: str) -> None:
    """Give each table that is there its name in the catalog. Harmless when repeated. Without ``table`` do nothing.

    ``locations``: by the table's own name. A name of a table that ``owner`` wrote elsewhere before is moved along.
    Raises InvalidSpec if there is no catalog that lasts, no such schema, or if the name is taken, and StoreUnreachable
    if the metastore does not answer.
    """
    if table is None:
        return
    try:
        _require_catalog(spark, table)
        for own, name in catalog_names(table).items():
            if table_exists(spark, own, locations[own]):
                _name(spark, name, locations[own], owner)
    except (PySparkException, JavaError) as error:
        failure = store_failure(error, table, "Spark's catalog", java_message(error))
        if isinstance(failure, StoreUnreachable):
            raise failure from error
        raise


def _require_catalog(spark: SparkSession, table: str) -> None:
    catalog, _, schema = table.rpartition(".")[0].rpartition(".")
    catalog = catalog or spark.catalog.currentCatalog()
    if catalog == _OWN and spark.conf.get(_KIND) == "in-memory":
        raise InvalidSpec(FIELD, table, f"null, or set {_KIND}=hive, because Spark's catalog ends with each process")
    if catalog != _OWN and spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
        raise InvalidSpec(FIELD, table, f"a name in a catalog of Spark, because spark.sql.catalog.{catalog} is not set")
    # databaseExists() finds no schema of spark_catalog by its whole name
    if spark.sql(f"SHOW SCHEMAS IN `{catalog}` LIKE '{schema}'").isEmpty():
        raise InvalidSpec(FIELD, table, f"a name in a schema that is there: run CREATE SCHEMA {catalog}.{schema}")


def _name(spark: SparkSession, name: str, location: str, owner: str) -> None:
    found = _place_of(spark, name) or _register(spark, name, location)
    if found == _plain(location):
        return
    if _owner_of(spark, found) != owner:
        raise InvalidSpec(FIELD, name, f"a name that no other table has, because it names the table at {found}")
    with temporary_settings(spark, _ANY_COLUMNS):
        spark.sql(f"ALTER TABLE {name} SET LOCATION '{_quote(location)}'")


def _register(spark: SparkSession, name: str, location: str) -> str:
    """Give the table at ``location`` its name. Return the place that has it, because another driver may be quicker."""
    try:
        spark.catalog.createTable(name, path=location, source="delta")
    except AnalysisException as error:
        if "ALREADY_EXISTS" not in java_message(error):
            raise
    return _place_of(spark, name) or _plain(location)


def _owner_of(spark: SparkSession, location: str) -> str | None:
    """Return the owner of the table, or of the sessions beside it, because a table of a report has none of its own."""
    beside = f"{location.rpartition('/')[0]}/{SESSIONS}"
    return table_property(spark, location, OWNER) or table_property(spark, beside, OWNER)


def _place_of(spark: SparkSession, name: str) -> str | None:
    """Return the place of the table, None if the name is free. Raises InvalidSpec if it names no Delta table."""
    try:
        if not spark.catalog.tableExists(name):
            return None
        detail = DeltaTable.forName(spark, name).detail().select("location").first()
    except AnalysisException as error:
        said = str(error)
        if _NO_DELTA in said:
            raise InvalidSpec(FIELD, name, "a name that no table or view of another kind has") from error
        if any(sign in said for sign in _NO_TABLE):
            allowed = f"Put the table of that name back, or run DROP TABLE {name}, because its files are gone"
            raise InvalidSpec(FIELD, name, allowed) from error
        raise
    return None if detail is None else _plain(str(detail.location))


def _plain(location: str) -> str:
    """Write a local place in one way, because Spark adds a scheme to it."""
    if location.startswith(_FILE):
        return f"/{location.removeprefix(_FILE).lstrip('/')}"
    return location.rstrip("/")


def _quote(location: str) -> str:
    return location.replace("\\", "\\\\").replace("'", "\\'")
