"""Maker of the Delta tables of a stream, which also adds the columns that one lacks, and gives them names.

A name in Spark's catalog is that of an external table at the place that the stream writes to. Only a job that makes
tables asks the catalog: a driver's start, an apply, a seed, a report. Batches and the other commands go by the place.

A table has one owner, a stream of one platform home, and refuses any other writer (docs/adr/0056).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sessionizer.errors import DataAway, InvalidSpec, SessionizerError, StoreUnreachable, TableOwned
from sessionizer.home.data_files import list_names
from sessionizer.home.home_identity import owner_name
from sessionizer.home.names import OPEN_SESSIONS, SESSIONS
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import sink_folders
from sessionizer.spark.failures.query_failure import store_failure
from sessionizer.spark.internals.delta_log import last_versions, table_property
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.sinks.table_shapes import TableShape, lacks, open_sessions_shape, require_fit
from sessionizer.state.lineages.origin import origins_of
from sessionizer.state.lineages.table_changes import has_recorded_rows, is_of_operation
from sessionizer.stream_spec.document.names import catalog_names
from sessionizer.stream_spec.document.stream import StreamSpec

OWNER: Final = "sessionizer.owner"
"""Table property: the stream that alone writes it, and its platform home."""

CHANGE_FEED: Final = "delta.enableChangeDataFeed"

COMMITS_PER_CHECKPOINT: Final = "50"
"""Delta's default of 10 is for jobs that commit now and then; a stream pays it often (docs/develop/tuning.md)."""


def table_exists(spark: SparkSession, name: str, location: str) -> bool:
    """Whether a Delta table is there. Raises DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted."""
    try:
        return bool(DeltaTable.isDeltaTable(spark, location))
    except (PySparkException, JavaError) as error:
        raise store_failure(error, location, f"the table {name}", java_message(error)) from error


def ensure_tables(
    spark: SparkSession, shapes: Iterable[TableShape], locations: Mapping[str, str], owner: str | None = None
) -> None:
    """Call ``ensure_table`` for each side by side. Raises InvalidSpec before any is touched, and the first failure."""
    wanted = tuple(shapes)
    found = zip(require_tables_fit(spark, wanted, locations), wanted, strict=True)
    with ThreadPoolExecutor(thread_name_prefix="ensure-table") as pool:
        waiting = [pool.submit(_make, spark, columns, shape, locations[shape.name], owner) for columns, shape in found]
        for one in waiting:
            one.result()


def require_tables_fit(
    spark: SparkSession, shapes: Iterable[TableShape], locations: Mapping[str, str]
) -> list[StructType | None]:
    """Return the columns of each table, None for a missing one. Raises StoreUnreachable, QueryFailed, InvalidSpec."""
    with ThreadPoolExecutor(thread_name_prefix="fit-table") as pool:
        looked_at = [pool.submit(_read_existing_columns, spark, shape, locations[shape.name]) for shape in shapes]
        return [one.result() for one in looked_at]


def ensure_table(spark: SparkSession, shape: TableShape, location: str, owner: str | None = None) -> None:
    """Create the table, as that of ``owner``, or add the columns, and the fields of structs, that it lacks.

    A column stays when it is gone. Raises DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted, and InvalidSpec
    when a column has another type, because streams never rewrite the past of a table.
    """
    _make(spark, _read_existing_columns(spark, shape, location), shape, location, owner)


def _read_existing_columns(spark: SparkSession, shape: TableShape, location: str) -> StructType | None:
    """Return the table's columns, None if it is not there. Raises InvalidSpec if one misfits."""
    if not table_exists(spark, shape.name, location):
        return None
    existing = spark.read.format("delta").load(location).schema

    def may_widen() -> bool:
        properties = DeltaTable.forPath(spark, location).detail().select("properties").first()
        return properties is not None and properties[0].get("delta.enableTypeWidening") == "true"

    require_fit(shape, existing, location, may_widen)
    return existing


def _make(
    spark: SparkSession, existing: StructType | None, shape: TableShape, location: str, owner: str | None
) -> None:
    if existing is None:
        builder = DeltaTable.createIfNotExists(spark).location(location).comment(shape.comment)
        owned = {} if owner is None else {OWNER: owner}
        for name, value in {"delta.checkpointInterval": COMMITS_PER_CHECKPOINT, **shape.properties, **owned}.items():
            builder = builder.property(name, value)
        try:
            builder.addColumns(shape.columns).clusterBy("date").execute()
        except (PySparkException, JavaError) as error:
            raise store_failure(error, location, f"the table {shape.name}", java_message(error)) from error
    elif lacks(existing, shape):
        # nothing is appended, the new columns (or fields of events) are added: writes then need not merge schemas
        nothing = spark.createDataFrame([], shape.columns)
        nothing.write.format("delta").mode("append").option("mergeSchema", "true").save(location)


FIELD: Final = "sink.table"
_OWN: Final = "spark_catalog"
_KIND: Final = "spark.sql.catalogImplementation"
_ANY_COLUMNS: Final = {"spark.databricks.delta.alterLocation.bypassSchemaCheck": "true"}
"""Setting by which a name moves to a table with other columns, because columns come with the spec."""


def name_tables(spark: SparkSession, table: str | None, locations: Mapping[str, str], owner: str) -> None:
    """Give each table that is there its name in the catalog. Harmless when repeated. Without ``table`` do nothing.

    A name of a table that ``owner`` wrote elsewhere before is moved along. Raises InvalidSpec if there is no catalog
    that lasts, no such schema, or if the name is taken, and StoreUnreachable if the metastore does not answer.
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
    if (found := _place_of(spark, name)) is None:
        try:
            spark.catalog.createTable(name, path=location, source="delta")
        except AnalysisException as error:  # another driver may be quicker
            if "ALREADY_EXISTS" not in java_message(error):
                raise
        found = _place_of(spark, name) or _plain(location)
    if found == _plain(location):
        return
    # a table of a report has no owner of its own: that of the sessions beside it
    beside = f"{found.rpartition('/')[0]}/{SESSIONS}"
    if (table_property(spark, found, OWNER) or table_property(spark, beside, OWNER)) != owner:
        raise InvalidSpec(FIELD, name, f"a name that no other table has, because it names the table at {found}")
    with temporary_settings(spark, _ANY_COLUMNS):
        quoted = location.replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"ALTER TABLE {name} SET LOCATION '{quoted}'")


def _place_of(spark: SparkSession, name: str) -> str | None:
    """Return the place of the table, None if the name is free. Raises InvalidSpec if it names no Delta table."""
    try:
        if not spark.catalog.tableExists(name):
            return None
        detail = DeltaTable.forName(spark, name).detail().select("location").first()
    except AnalysisException as error:
        if "[DELTA_MISSING_DELTA_TABLE]" in str(error):
            raise InvalidSpec(FIELD, name, "a name that no table or view of another kind has") from error
        if any(sign in str(error) for sign in ("[DELTA_PATH_DOES_NOT_EXIST]", "[DELTA_TABLE_NOT_FOUND]")):
            allowed = f"Put the table of that name back, or run DROP TABLE {name}, because its files are gone"
            raise InvalidSpec(FIELD, name, allowed) from error
        raise
    return None if detail is None else _plain(str(detail.location))


def _plain(location: str) -> str:
    """Write a local place in one way, because Spark adds a scheme to it."""
    return re.sub("^file:/*", "/", location) if location.startswith("file:") else location.rstrip("/")


def have_tables(
    spark: SparkSession, home: StreamHome, spec: StreamSpec, shapes: Iterable[TableShape], *, anew: bool = False
) -> None:
    """Make the stream's tables if missing, with their change feed. Require that no other stream writes them.

    Raises DataAway for a table that has rows of the stream and is gone, unless it may be made ``anew``, and TableOwned,
    DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted, and InvalidSpec if a column misfits.
    """
    owner, streamed = owner_name(home.name, home.control_base), home.streamed_locations(spec.sink.path)
    ours, wanted = streamed, tuple(shapes)
    if spec.sink.open_sessions_every_ms is not None:
        ours = {**ours, OPEN_SESSIONS: home.table_locations(spec.sink.path)[OPEN_SESSIONS]}
        wanted += tuple(open_sessions_shape(shape) for shape in wanted if shape.name == SESSIONS)
    for name, location in ours.items() if not anew else ():
        if not table_exists(spark, name, location) and has_recorded_rows(home, spec.sink.path, name):
            raise DataAway(home.name, f"the table {name}", location)
    claim_tables(spark, ours, owner, set(list_names(home.lineages)))
    ensure_tables(spark, wanted, ours, owner)
    require_ours(spark, ours, owner)
    for name, location in streamed.items() if spec.sink.change_feed else ():
        if table_property(spark, location, CHANGE_FEED) != "true":
            _set_property(spark, location, CHANGE_FEED, "true", f"the change feed of table {name}")
    name_tables(spark, spec.sink.table, home.table_locations(spec.sink.path), owner)


def delete_open_sessions(spark: SparkSession, home: StreamHome, keep: tuple[str | None, str] | None = None) -> None:
    """Delete the rows of ``open_sessions`` in every folder that the stream wrote to.

    ``keep``: folder and lineage whose rows stay. Raises DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted.
    """
    owner, folders = owner_name(home.name, home.control_base), sink_folders(home, origins_of(home))
    for folder in dict.fromkeys((*folders, *(keep or ())[:1])):
        location = home.table_locations(folder)[OPEN_SESSIONS]
        if not table_exists(spark, OPEN_SESSIONS, location) or table_property(spark, location, OWNER) != owner:
            continue
        others = f"lineage <> '{keep[1]}'" if keep is not None and folder == keep[0] else None
        try:
            DeltaTable.forPath(spark, location).delete(others)
        except (PySparkException, JavaError) as error:
            raise store_failure(error, location, f"the table {OPEN_SESSIONS}", java_message(error)) from error


def claim_tables(spark: SparkSession, tables: Mapping[str, str], owner: str, lineages: Collection[str]) -> None:
    """Mark each of the ``tables`` (name to location) that has no owner as that of ``owner``.

    One that was written before tables had owners is claimed only if none but ``lineages``, the owner's, wrote it.
    Raises TableOwned before any is marked, and DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted.
    """
    unmarked = []
    for name, location in tables.items():
        if not table_exists(spark, name, location):
            continue
        if (found := table_property(spark, location, OWNER)) is None:
            wrote = set(last_versions(spark, location)).difference(lineages)
            strangers = sorted(name for name in wrote if not is_of_operation(name))
            found = f"the stream of lineage {strangers[-1]}" if strangers else owner
            unmarked.append((name, location))
        _require(location, found, owner)
    for name, location in unmarked:
        try:
            _set_property(spark, location, OWNER, owner, f"the owner of table {name}")
        except SessionizerError:
            _require(location, table_property(spark, location, OWNER) or owner, owner)
            raise


def require_ours(spark: SparkSession, tables: Mapping[str, str], owner: str) -> None:
    """Raise TableOwned if one of the ``tables``, just made and claimed, is by now not marked as that of ``owner``."""
    for location in tables.values():
        _require(location, table_property(spark, location, OWNER) or "nobody", owner)


def _set_property(spark: SparkSession, location: str, name: str, value: str, what: str) -> None:
    """Set a property, with ``what`` in errors. Raises DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted."""
    try:
        spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('{name}' = '{value}')")
    except PySparkException as error:
        raise store_failure(error, location, what, java_message(error)) from error


def _require(location: str, found: str, owner: str) -> None:
    if found != owner:
        raise TableOwned(location, found, owner)
