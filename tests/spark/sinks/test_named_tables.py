"""Tables with names in a Hive metastore: another Spark session reads them by name, and a name is not taken away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import pytest

from sessionizer.errors import InvalidSpec
from sessionizer.home.home_identity import owner_name
from sessionizer.home.names import STREAMED
from sessionizer.spark.sinks.tables import FIELD, name_tables
from sessionizer.stream_spec.document.names import catalog_names
from support.expected.landed import Landed, assert_as_defined, landed
from support.stores.hive_metastore import HiveMetastore, command, sql
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.streams.click_files import ClickFiles

NAME = "default.clicks"
FILES = 3


@dataclass(slots=True)
class Named:
    """A stream that ran to its end, and the answers of a Spark session that came after it."""

    stage: Stage
    files: ClickFiles
    landed: Landed
    answers: dict[str, Any]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Named:
    root = tmp_path_factory.mktemp("named")
    metastore, stage = HiveMetastore(root), Stage.set_up(root, clicks_spec() | {"sink": {"table": NAME}})
    files = write_click_files(stage.feed, FILES, rate=12)
    steps = steps_of(stage)
    # in one process, because another JVM would take longer than all steps
    code, *answers = metastore.ask(command(stage, "run", "--until", "drained"), *steps.values())
    assert code == 0
    return Named(stage, files, landed(stage), dict(zip(steps, answers, strict=True)))


def steps_of(stage: Stage) -> dict[str, dict[str, Any]]:
    """The steps of the later session, in their order."""
    home = stage.stream_home
    owner, places = owner_name(home.name, home.control_base), home.table_locations(None)
    moved = str(stage.root / "moved to" / "sessions")
    name = {"table": NAME, "locations": places, "owner": owner}
    return {
        **{table: sql(f"FROM {catalog_names(NAME)[table]} SELECT count(*)") for table in STREAMED},
        "place": sql(f"DESCRIBE TABLE EXTENDED {NAME}"),
        "again": name,
        "no schema": {**name, "table": "web.sessions"},
        "no catalog": {**name, "table": "lake.web.sessions"},
        "elsewhere": sql(f"CREATE TABLE delta.`{moved}` (another string) USING delta"),
        "stranger": {**name, "locations": dict.fromkeys(places, moved), "owner": "visits@0123456789abcdef"},
        "of parquet": sql("CREATE TABLE default.rows (x int) USING parquet"),
        "parquet": {**name, "table": "default.rows"},
        "a view": sql("CREATE VIEW default.seen AS SELECT 1 AS x"),
        "view": {**name, "table": "default.seen"},
        "moved": {**name, "locations": {**places, "sessions": moved}},
        "columns": sql(f"FROM (VALUES (1)) LEFT JOIN {NAME} ON true SELECT *"),
        "removed": {"remove": moved},
        "gone": name,
        "dropped": sql(f"DROP TABLE {NAME}"),
        "named anew": name,
        "rows": sql(f"FROM {NAME} SELECT count(*)"),
    }


def test_another_session_reads_each_row_by_the_names(named: Named) -> None:
    assert_as_defined(named.stage, named.files)
    assert named.answers["sessions"] == [[named.landed.sessions.total()]]
    assert named.answers["quarantine"] == [[named.landed.quarantine.total()]]
    assert named.answers["late_events"] == [[named.landed.late.total()]]


def test_deltalake_and_duckdb_read_the_place_of_a_name(named: Named) -> None:
    (place,) = [value for column, value, _ in named.answers["place"] if column == "Location"]
    with duckdb.connect() as database:
        database.register("clicks", deltalake.DeltaTable(place).to_pyarrow_table())
        assert database.sql("select count(*) from clicks").fetchall() == [(named.landed.sessions.total(),)]


@pytest.mark.parametrize(
    ("step", "value", "allowed"),
    [
        ("no schema", "web.sessions", "CREATE SCHEMA spark_catalog.web"),
        ("no catalog", "lake.web.sessions", "spark.sql.catalog.lake"),
        ("stranger", NAME, "tables/sessions"),
        ("parquet", "default.rows", "another kind"),
        ("view", "default.seen", "another kind"),
        ("gone", NAME, f"DROP TABLE {NAME}"),
    ],
)
def test_a_name_that_is_not_free_is_refused(named: Named, step: str, value: str, allowed: str) -> None:
    refused = named.answers[step]
    assert (refused["field"], refused["value"]) == (FIELD, value)
    assert allowed in refused["allowed"]


def test_a_name_moves_with_its_table_to_other_columns(named: Named) -> None:
    assert (named.answers["again"], named.answers["moved"]) == (None, None)
    assert named.answers["columns"] == [[1, None]]


def test_a_dropped_name_is_given_anew(named: Named) -> None:
    assert named.answers["named anew"] is None
    assert named.answers["rows"] == [[named.landed.sessions.total()]]


def test_a_catalog_that_ends_with_its_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidSpec) as refused:
        name_tables(spark, NAME, {}, "clicks@0123456789abcdef")
    assert (refused.value.field, refused.value.value) == (FIELD, NAME)
    assert "spark.sql.catalogImplementation=hive" in refused.value.allowed
