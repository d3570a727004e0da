"""What the stream writes is read by others: Spark SQL, deltalake, Polars, DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable
from pyspark.sql.types import StringType, StructType

from sessionizer.home import names
from sessionizer.spark.session import EXACTNESS
from sessionizer.spark.sinks import table_shapes, tables
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PAYLOAD = [pa.field("page", pa.string())]


@pytest.fixture(scope="module")
def spec() -> StreamSpec:
    return StreamSpec.model_validate(
        {
            "name": "readable",
            "source": {"format": "files", "path": "in", "encoding": "text"},
            "mapping": {
                "key": "value",
                "event_time": "timestamp '2024-03-01 00:00:00'",
                "event_id": "value",
                "payload": {"page": "value"},
            },
        }
    )


@pytest.fixture(scope="module")
def locations(spark: SparkSession, spec: StreamSpec, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("readable")
    shapes = [
        table_shapes.sessions_shape(spec, PAYLOAD, StructType()),
        table_shapes.quarantine_shape(),
        table_shapes.late_events_shape(StructType().add("page", StringType())),
    ]
    for shape in shapes:
        tables.ensure_table(spark, shape, str(folder / shape.name))
        append_rows(spark, shape, folder / shape.name, 1)
    return {shape.name: folder / shape.name for shape in shapes}


def append_rows(spark: SparkSession, shape: table_shapes.TableShape, table: Path, count: int) -> None:
    values = (expression(column.name, column.dataType.simpleString()) for column in shape.columns)
    spark.range(0, count, 1, 1).selectExpr(*values).write.format("delta").mode("append").save(str(table))


def expression(name: str, kind: str) -> str:
    """A value of any of our types, as SQL."""
    if name == "events":
        event = '{"event_id": "e1", "page": "/", "event_time": "2026-01-01T00:00:00Z"}'
        return f"from_json('[{event}]', '{kind}') as events"
    value = {"date": "current_date()", "timestamp": "now()", "boolean": "true"}.get(kind, "'7'")
    return f"cast({value} as {kind}) as {name}"


TABLES = [names.SESSIONS, names.QUARANTINE, names.LATE_EVENTS]


@pytest.mark.parametrize("name", TABLES)
def test_spark_sql_reads_it(spark: SparkSession, locations: dict[str, Path], name: str) -> None:
    found = spark.sql(f"select lineage, batch_id from delta.`{locations[name]}`").collect()  # noqa: S608
    assert [(row.lineage, row.batch_id) for row in found] == [("7", 7)]


@pytest.mark.parametrize("name", TABLES)
def test_deltalake_and_duckdb_read_it(locations: dict[str, Path], name: str) -> None:
    rows = deltalake.DeltaTable(str(locations[name])).to_pyarrow_table()
    with duckdb.connect() as database:
        database.register("rows", rows)
        assert database.sql("select lineage, batch_id, date <= current_date from rows").fetchall() == [("7", 7, True)]


@pytest.mark.parametrize("name", TABLES)
def test_polars_reads_it(locations: dict[str, Path], name: str) -> None:
    frame = polars.read_delta(str(locations[name]))
    assert frame.select("lineage", "batch_id").rows() == [("7", 7)]


def test_the_events_of_a_session_are_an_array_of_structs(locations: dict[str, Path]) -> None:
    rows = deltalake.DeltaTable(str(locations[names.SESSIONS])).to_pyarrow_table().to_pylist()
    assert [event["event_id"] for event in rows[0]["events"]] == ["e1"]


def test_columns_are_documented_and_clustered_by_date(spark: SparkSession, locations: dict[str, Path]) -> None:
    described = spark.sql(f"describe detail delta.`{locations[names.SESSIONS]}`").collect()[0]
    assert list(described.clusteringColumns) == ["date"]
    assert described.minReaderVersion == 1
    fields = spark.read.format("delta").load(str(locations[names.SESSIONS])).schema
    assert all(field.metadata.get("comment") for field in fields)


def test_what_never_repeats_has_no_dictionary_and_only_what_helps_to_skip_files_has_statistics(
    spark: SparkSession, spec: StreamSpec, tmp_path: Path
) -> None:
    shape = table_shapes.sessions_shape(spec, PAYLOAD, StructType())
    tables.ensure_table(spark, shape, str(tmp_path))
    append_rows(spark, shape, tmp_path, 1000)
    (added,) = pa.table(deltalake.DeltaTable(str(tmp_path)).get_add_actions(flatten=True)).to_pylist()
    lowest = {name.removeprefix("min.") for name, value in added.items() if "min." in name and value is not None}
    assert lowest == {"date", "started_at", "ended_at", "lineage", "batch_id"}
    group = pq.ParquetFile(tmp_path / added["path"]).metadata.row_group(0)
    columns = [group.column(position) for position in range(group.num_columns)]
    repeating = {column.path_in_schema for column in columns if "PLAIN_DICTIONARY" in column.encodings}
    assert {"key", "client", "events.list.element.page"} <= repeating
    ids = {"session_id", "events.list.element.event_id"}
    assert not {*ids, "started_at", "ended_at", "events.list.element.event_time"} & repeating
    assert {column.path_in_schema for column in columns if not column.is_stats_set} == ids


def test_a_new_payload_column_is_added_to_an_existing_table(
    spark: SparkSession, spec: StreamSpec, locations: dict[str, Path]
) -> None:
    wider = [*PAYLOAD, pa.field("device", pa.string())]
    shape = table_shapes.sessions_shape(spec, wider, StructType())
    tables.ensure_table(spark, shape, str(locations[names.SESSIONS]))
    events = spark.read.format("delta").load(str(locations[names.SESSIONS])).schema["events"].dataType
    assert "device" in events.simpleString()


def test_the_session_is_set_up_for_exactness(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in EXACTNESS} == EXACTNESS


def test_a_table_is_not_checkpointed_in_every_tenth_batch(spark: SparkSession, locations: dict[str, Path]) -> None:
    for location in locations.values():
        detail = DeltaTable.forPath(spark, str(location)).detail().collect()[0]
        assert detail.properties["delta.checkpointInterval"] == tables.COMMITS_PER_CHECKPOINT
