"""What the stream writes is read by others: Spark SQL, deltalake, Polars, DuckDB."""

import os
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from sessionizer.errors import InvalidSpec, QueryFailed
from sessionizer.home import names
from sessionizer.home.roots import uri_of
from sessionizer.spark.failures.query_failure import classify_failure
from sessionizer.spark.session import EXACTNESS
from sessionizer.spark.sinks import table_shapes, tables
from sessionizer.spark.sinks.measures import GuardedAggregates, add_measures, measure_types
from sessionizer.stream_spec.document.stream import StreamSpec
from support.expected.landed import table_rows
from support.faults.bad_clicks import line
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage, clicks_spec

PAYLOAD = [pa.field("page", pa.string())]


@pytest.fixture(scope="module")
def spec() -> StreamSpec:
    mapping = {"key": "value", "event_time": "timestamp '2024-03-01 00:00:00'", "event_id": "value"}
    source = {"format": "files", "path": "in", "encoding": "text"}
    return StreamSpec.model_validate(
        {"name": "readable", "source": source, "mapping": {**mapping, "payload": {"page": "value"}}}
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
    value = {"date": "date'2026-01-01'", "timestamp": "now()", "boolean": "true"}.get(kind, "'7'")
    return f"cast({value} as {kind}) as {name}"


TABLES = [names.SESSIONS, names.QUARANTINE, names.LATE_EVENTS]


@pytest.mark.parametrize("name", TABLES)
def test_each_engine_reads_it(spark: SparkSession, locations: dict[str, Path], name: str) -> None:
    place = str(locations[name])
    by_spark = spark.sql(f"select lineage, batch_id from delta.`{place}`").collect()  # noqa: S608
    rows = deltalake.DeltaTable(place).to_pyarrow_table()
    by_duckdb = duckdb.from_arrow(rows).project("lineage, batch_id, date <= current_date").fetchall()
    by_polars = polars.read_delta(place).select("lineage", "batch_id").rows()
    assert ([(*row,) for row in by_spark], by_duckdb, by_polars) == ([("7", 7)], [("7", 7, True)], [("7", 7)])
    if name == names.SESSIONS:
        assert [event["event_id"] for event in rows.to_pylist()[0]["events"]] == ["e1"]
    properties = DeltaTable.forPath(spark, place).detail().collect()[0].properties
    assert properties["delta.checkpointInterval"] == tables.COMMITS_PER_CHECKPOINT, "not in every tenth batch"


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


EVENTS = "array<struct<at: timestamp, page: string, amount: double, seconds: bigint, tags: map<string, string>>>"
ABSURD = 2**62
PLAIN: dict[str, list[tuple[Any, ...]]] = {
    "a": [("/", 1.5, 5, {"x": "1"}), ("/cart", None, 7, {"x": "2"}), ("/", 2.5, 6, {"x": "3"})],
    "b": [("/bad", 1.0, ABSURD, {"y": "1"}), ("/", 3.0, 8, {"x": "4"})],
    "c": [("/bad", None, None, None)],
}
MEASURES = {
    # with no session that fails
    "hits": "count(*)",
    "pages": "count(distinct page)",
    "spent": "coalesce(sum(amount) filter (where page = '/'), 0.0)",
    "carts": "count_if(page = '/cart')",
    "entry": "first(page)",
    "exit": "last(lower(page))",
    "best": "max_by(page, amount)",
    "trail": "array_join(collect_list(upper(page)), '>')",
    "median": "percentile_cont(0.5) within group (order by amount * 2)",
    "each": "listagg(page, ',')",
    "share": "count_if(page = '/') / count(*)",
    "unlike": "any_value(amount * 2) ignore nulls",
    "quantiles": "cast(percentile(amount + 1, array(0.0, 1.0)) as string)",
    # with b failing in a value of an event
    "latest": "max(timestamp_seconds(seconds))",
    "moments": "count(distinct timestamp_seconds(seconds))",
    "kept": "first(timestamp_seconds(seconds))",
    "ordered": "percentile_cont(0.5) within group (order by unix_micros(timestamp_seconds(seconds)))",
    "filtered": "count(*) filter (where timestamp_seconds(seconds) > timestamp '1970-01-01 00:00:06')",
    "spared": "max(timestamp_seconds(seconds)) filter (where page <> '/bad')",
    "raised": "sum(if(page = '/bad', raise_error('no'), amount))",
    # with b failing in what is made of the result
    "after": "timestamp_seconds(sum(seconds))",
    "twice": "max(seconds) + unix_micros(timestamp_seconds(max(seconds)))",
}
FAILS_IN_B = ("latest", "moments", "kept", "ordered", "filtered", "raised", "after", "twice")


def sessions(spark: SparkSession) -> DataFrame:
    rows = [(key, [(None, *event) for event in events]) for key, events in PLAIN.items()]
    return spark.createDataFrame(rows, f"session_id string, events {EVENTS}")


def unguarded(spark: SparkSession, sql: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """What Spark itself makes of a measure."""
    events = sessions(spark).where(F.col("session_id").isin(*keys)).select("session_id", F.explode("events").alias("e"))
    found = events.select("session_id", "e.*").groupBy("session_id").agg(F.expr(sql).alias("measure"))
    return {row.session_id: row.measure for row in found.collect()}


@pytest.mark.usefixtures("either_way")
def test_a_session_that_fails_is_null_and_the_others_are_as_spark_has_them(spark: SparkSession) -> None:
    found = add_measures(sessions(spark), GuardedAggregates.of(spark, MEASURES)).collect()
    of_key = {row.session_id: row for row in found}
    assert sorted(of_key) == ["a", "b", "c"]
    for name, sql in MEASURES.items():
        sound = ("a",) if name == "raised" else ("a", "c") if name in FAILS_IN_B else ("a", "b", "c")
        expected = unguarded(spark, sql, sound)
        assert {key: of_key[key][name] for key in sound} == expected, name
        assert all(of_key[key][name] is None for key in of_key if key not in sound), name


@pytest.mark.usefixtures("either_way")
def test_a_stream_goes_on_past_a_session_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    spec = clicks_spec()
    spec["mapping"]["payload"] = {"seconds": "cast(amount as bigint)"}
    spec["measures"] = {"latest": "unix_seconds(max(timestamp_seconds(seconds)))", "total": "sum(seconds)"}
    stage = Stage.set_up(tmp_path, spec)
    clicks = [line(0, "ann", amount=5), line(0, "bob", amount=7), line(1, "bob", amount=1e18), line(1, "ann", amount=6)]
    (stage.feed / "1.json").write_bytes(b"\n".join(clicks))
    os.utime(stage.feed / "1.json", (0, 0))  # Spark reads the oldest first
    # brings ann's and bob's sessions to their end, in a batch before its own
    (stage.feed / "2.json").write_bytes(line(600, "cy", amount=8))
    catch_up(spark, stage)
    assert len(table_rows(stage.table("sessions"))) == 2

    drain(spark, stage)

    found = {row["key"]: (row["latest"], row["total"]) for row in table_rows(stage.table("sessions"))}
    assert found == {"ann": (6, 11), "bob": (None, 10**18 + 7), "cy": (8, 8)}
    assert table_rows(stage.table("quarantine")) == []


@pytest.mark.usefixtures("either_way")
def test_the_types_are_those_of_the_bare_aggregates(spark: SparkSession) -> None:
    frame = sessions(spark)
    types = measure_types(frame, MEASURES)
    events = frame.select(F.explode("events").alias("e")).select("e.*")
    for name, sql in MEASURES.items():
        assert types[name].dataType == events.groupBy().agg(F.expr(sql).alias(name)).schema[name].dataType


REFUSED = {
    "count(*) + (select max(value) from text.`/proc/self/environ`)": "no subquery",
    "count_if(page in (select value from text.`/proc/self/environ`))": "no subquery",
    "max(reflect('java.lang.System', 'getenv', 'HOME'))": "not reflect",
    "max(uuid())": "not uuid()",
    "count_if(at > current_timestamp())": "not current_timestamp()",
    "count_if(at > 'now')": "not 'now'",
    "max(rand())": "not rand()",
    "lower(page)": "a SQL aggregate over at, page",
    "sum(count(*)) over ()": "not a window",
    "explode(collect_list(page))": "not explode",
    "hll_sketch_estimate(hll_union_agg(cast(page as binary)))": "not hll_union_agg",
    "sum(nobodys(page))": "not nobodys",
    "sum(at - timestamp '2000-01-01')": "no intervals",
}


@pytest.mark.usefixtures("either_way")
def test_what_spark_cannot_plan_is_refused_before_a_batch_dies_of_it(spark: SparkSession) -> None:
    both = {"pages": "count(distinct page)", "amounts": "count(distinct amount)"}
    both |= {"each": "listagg(page) within group (order by page)"}
    with pytest.raises(InvalidSpec, match=r"measures\.each is .* can plan"):
        measure_types(sessions(spark), both)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_measure_is_refused_with_its_field(spark: SparkSession, sql: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        measure_types(sessions(spark), {"one": sql})
    assert (caught.value.field, caught.value.value) == ("measures.one", sql)
    assert REFUSED[sql] in caught.value.allowed


LONG = " or ".join(f"client = 'client {number}'" for number in range(40))


@pytest.mark.long
def test_a_constraint_of_a_table_is_named_and_can_be_removed(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    (stage.feed / "1.json").write_bytes(line(0, client="client 1") + b"\n" + line(600, client="client 1"))
    catch_up(spark, stage)
    table = f"alter table delta.`{uri_of(stage.table('sessions'))}`"
    spark.sql(f"{table} add constraint known check ({LONG})")
    (stage.feed / "2.json").write_bytes(line(601, "other", client=None) + b"\n" + line(1_200, client="client 1"))
    with pytest.raises(StreamingQueryException) as ended:
        drain(spark, stage)
    error = classify_failure("clicks", ended.value)
    assert isinstance(error, QueryFailed)
    assert error.cause == "table_rule"
    assert "client 39" in error.detail.splitlines()[0]
    spark.sql(f"{table} drop constraint known")
    drain(spark, stage)
    landed = {name: table_rows(stage.table(name)) for name in ("sessions", "late_events", "quarantine")}
    keys = sorted(row["key"] for row in landed["sessions"])
    assert (keys, landed["late_events"], landed["quarantine"]) == (["other", "victim", "victim", "victim"], [], [])


def test_a_driver_turns_the_change_feed_on_and_none_turns_it_off(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    (stage.feed / "1.json").write_bytes(line(0) + b"\n" + line(600, "other"))
    catch_up(spark, stage)
    begins = [begin(spark, stage, change_feed=wanted) for wanted in (True, True, False)]
    assert begins[0] == begins[1] == begins[2]
    drain(spark, stage)
    DeltaTable.forPath(spark, uri_of(stage.table("sessions"))).delete("key = 'other'")
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    for name in TABLES:
        changes = reader.option("startingVersion", begins[0][name]).load(uri_of(stage.table(name))).collect()
        found = [(row._change_type, row.key) for row in changes] if name == names.SESSIONS else changes
        assert sorted(found) == ([("delete", "other"), ("insert", "other")] if name == names.SESSIONS else [])


def begin(spark: SparkSession, stage: Stage, *, change_feed: bool) -> dict[str, int]:
    """Versions of the tables after the start of a driver."""
    stage.write_spec({**clicks_spec(), "sink": {"change_feed": change_feed}})
    tables.have_tables(spark, stage.stream_home, stage.spec(), ())
    return {name: deltalake.DeltaTable(str(stage.table(name))).version() for name in TABLES}
