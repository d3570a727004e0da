"""Facts that a Delta table records about itself: properties, columns, the version that it took of each application.

**Private**: Delta's log and its snapshot, which has the answer in the checksum beside the last commit.
**Public**: ``DeltaTable.detail()``, and the files of the table's log, whose form Delta's protocol fixes, read by
Spark's own readers: the newest checkpoint and the commits after it.
**Lost**: some jobs when a driver starts. A source whose columns were renamed or dropped ends its stream.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from sessionizer.launch.driver_environment import plain
from sessionizer.spark.internals.java_class import java_class
from sessionizer.spark.internals.java_errors import door
from sessionizer.state.lineages.table_snapshot import parts_that_tell

DOOR: Final = "Delta's log"


def last_version(spark: SparkSession, location: str, application: str) -> int:
    """Return the highest version of ``application`` in the table at ``location``, -1 if there is none."""
    if plain():
        return _read_versions(spark, location).get(application, -1)
    with door(DOOR):
        return read_transaction_version(_snapshot(spark, location), application)


def last_versions(spark: SparkSession, location: str) -> dict[str, int]:
    """Return the highest version of every application in the table at ``location``."""
    if plain():
        return _read_versions(spark, location)
    with door(DOOR):
        each = _snapshot(spark, location).transactions().iterator()
        found: dict[str, int] = {}
        while each.hasNext():
            one = each.next()
            found[str(one.productElement(0))] = int(one.productElement(1))
        return found


def table_property(spark: SparkSession, location: str, name: str) -> str | None:
    """Return a property of the table at ``location``, None if it has no such property, or is no table yet."""
    if plain():
        properties: dict[str, str] | None = _detail(spark, location, "properties")
        return None if properties is None else properties.get(name)
    with door(DOOR):
        found = _snapshot(spark, location).metadata().configuration().get(name)
        return str(found.get()) if found.isDefined() else None


def table_id(spark: SparkSession, location: str) -> str | None:
    """Return the id that the table at ``location`` was made with, None if it is no table."""
    if plain():
        found: str | None = _detail(spark, location, "id")
        return found
    with door(DOOR):
        snapshot = _snapshot(spark, location)
        return str(snapshot.metadata().id()) if snapshot.version() >= 0 else None


def column_ids(spark: SparkSession, location: str, version: int | None = None) -> dict[tuple[str, ...], str]:
    """Return the physical name of each column and nested field. ``version``: None, or one to come, is the newest."""
    with door(DOOR):
        log = delta_log(spark, location)
        snapshot = log.startTransaction().snapshot()
        if version is not None and version < snapshot.version():
            defaults = [getattr(log, f"getSnapshotAt$default${number}")() for number in (2, 3, 4)]
            snapshot = log.getSnapshotAt(version, *defaults)
        return dict(_ids_of_fields(json.loads(snapshot.metadata().schemaString()), ()))


def _ids_of_fields(kind: Any, at: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:  # noqa: ANN401  JSON
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        path = (*at, field["name"].lower())
        yield path, field["metadata"].get("delta.columnMapping.physicalName", field["name"])
        yield from _ids_of_fields(field["type"], path)
    for name in ("elementType", "keyType", "valueType"):
        yield from _ids_of_fields(kind.get(name), (*at, name))


def delta_log(spark: SparkSession, location: str) -> Any:  # noqa: ANN401  a Java object
    """Return Delta's log of the table."""
    return java_class(spark, "org.apache.spark.sql.delta.DeltaLog").forTable(spark._jsparkSession, location)  # noqa: SLF001  no Python API


def read_transaction_version(snapshot: Any, application: str) -> int:  # noqa: ANN401  a Java object
    """Return the highest version of ``application`` in a state of a table, -1 if there is none."""
    checksum = snapshot.checksumOpt()
    noted = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if not noted.isDefined():  # no checksum, or one of so many applications that it leaves them out
        version = snapshot.transactions().get(application)
        return int(version.get()) if version.isDefined() else -1
    each = noted.get().iterator()
    while each.hasNext():
        one = each.next()
        if one.appId() == application:
            return int(one.version())
    return -1


def _detail(spark: SparkSession, location: str, column: str) -> Any:  # noqa: ANN401  of any type
    if not DeltaTable.isDeltaTable(spark, location):
        return None
    detail = DeltaTable.forPath(spark, location).detail().select(column).first()
    return None if detail is None else detail[0]


def _snapshot(spark: SparkSession, location: str) -> Any:  # noqa: ANN401  a Java object
    return delta_log(spark, location).startTransaction().snapshot()


def _read_versions(spark: SparkSession, location: str) -> dict[str, int]:
    if not DeltaTable.isDeltaTable(spark, location):
        return {}
    folder = f"{location}/_delta_log"
    listed = spark.read.format("binaryFile").load(folder).select("path").collect()
    parts = parts_that_tell(str(row.path).rpartition("/")[2] for row in listed)
    found: dict[str, int] = {}
    for kind in ("json", "parquet"):
        files = [f"{folder}/{name}" for name in parts if name.endswith(kind)]
        if not files:
            continue
        reader = spark.read.schema("txn struct<appId: string, version: bigint>")
        noted = reader.format(kind).load(files).where("txn is not null")
        for row in noted.selectExpr("txn.appId", "txn.version").collect():
            found[row.appId] = max(found.get(row.appId, -1), row.version)
    return found
