"""Maker of the Delta tables of a stream, which also adds the columns that one lacks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from delta.tables import DeltaTable
from pyspark.errors import PySparkException

from sessionizer.spark.failures.query_failure import store_failure
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.spark.sinks.table_fit import lacks, require_fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from delta.tables import DeltaTableBuilder
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from sessionizer.spark.sinks.table_shapes import TableShape

OWNER: Final = "sessionizer.owner"
"""Table property: the stream that alone writes it, and its platform home."""

COMMITS_PER_CHECKPOINT: Final = "50"
"""Delta's default of 10 is for jobs that commit now and then; a stream pays it every few seconds (docs/tuning.md)."""


def _create(builder: DeltaTableBuilder, shape: TableShape, location: str) -> None:
    try:
        builder.execute()
    except (PySparkException, JavaError) as error:
        raise store_failure(error, location, f"the table {shape.name}", java_message(error)) from error


def table_exists(spark: SparkSession, name: str, location: str) -> bool:
    """Whether there is a Delta table at ``location``. ``name`` is for errors.

    Raises DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted.
    """
    try:
        return bool(DeltaTable.isDeltaTable(spark, location))
    except (PySparkException, JavaError) as error:
        raise store_failure(error, location, f"the table {name}", java_message(error)) from error


def ensure_tables(
    spark: SparkSession, shapes: Iterable[TableShape], locations: Mapping[str, str], owner: str | None = None
) -> None:
    """Call ``ensure_table`` for each, side by side, because each spends seconds in code used for the first time.

    Raises the first that failed, and InvalidSpec before any table is touched.
    """
    wanted = tuple(shapes)
    columns = require_tables_fit(spark, wanted, locations)
    found = [(existing, shape, locations[shape.name]) for existing, shape in zip(columns, wanted, strict=True)]
    with ThreadPoolExecutor(thread_name_prefix="ensure-table") as pool:
        waiting = [pool.submit(_make, spark, existing, shape, location, owner) for existing, shape, location in found]
        for one in waiting:
            one.result()


def require_tables_fit(
    spark: SparkSession, shapes: Iterable[TableShape], locations: Mapping[str, str]
) -> list[StructType | None]:
    """Return the columns of each table that is there, None for one that is not. Writes nothing.

    Raises StoreUnreachable, QueryFailed, and InvalidSpec for a type that a table cannot take.
    """
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
    """Return the columns of the table, None if there is none. Raises InvalidSpec if one misfits.

    Raises DiskFull, StoreUnreachable, UnwritablePath, QueryInterrupted.
    """
    if not table_exists(spark, shape.name, location):
        return None
    existing = spark.read.format("delta").load(location).schema
    require_fit(shape, existing, location, may_widen=lambda: _may_widen(spark, location))
    return existing


def _may_widen(spark: SparkSession, location: str) -> bool:
    properties = DeltaTable.forPath(spark, location).detail().select("properties").first()
    return properties is not None and properties[0].get("delta.enableTypeWidening") == "true"


def _make(
    spark: SparkSession, existing: StructType | None, shape: TableShape, location: str, owner: str | None
) -> None:
    if existing is None:
        builder = DeltaTable.createIfNotExists(spark).location(location).comment(shape.comment)
        owned = {} if owner is None else {OWNER: owner}
        for name, value in {"delta.checkpointInterval": COMMITS_PER_CHECKPOINT, **shape.properties, **owned}.items():
            builder = builder.property(name, value)
        _create(builder.addColumns(shape.columns).clusterBy("date"), shape, location)
    elif lacks(existing, shape):
        # nothing is appended, the new columns (or fields of events) are added: writes then need not merge schemas
        nothing = spark.createDataFrame([], shape.columns)
        nothing.write.format("delta").mode("append").option("mergeSchema", "true").save(location)
