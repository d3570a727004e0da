"""Tables with names in a Hive metastore: another Spark session reads them by name, and a name is not taken away."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pytest
from pyspark.sql import SparkSession

from sessionizer.errors import InvalidSpec, StoreUnreachable
from sessionizer.home.home_identity import owner_name
from sessionizer.home.names import STREAMED
from sessionizer.spark.sinks.tables import FIELD, name_tables
from sessionizer.stream_spec.document.names import catalog_names
from support.expected.landed import Landed, assert_as_defined, assert_path_as_defined, landed
from support.stores.hive_metastore import NOBODY, HiveMetastore, command, count, sql
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec

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


@pytest.mark.long
def test_another_session_reads_each_row_by_the_names(named: Named) -> None:
    assert_as_defined(named.stage, named.files)
    sessions = [[named.landed.sessions.total()]]
    assert named.answers["sessions"] == sessions
    assert named.answers["quarantine"] == [[named.landed.quarantine.total()]]
    assert named.answers["late_events"] == [[named.landed.late.total()]]
    (place,) = [value for column, value, _ in named.answers["place"] if column == "Location"]
    by_duckdb = duckdb.from_arrow(deltalake.DeltaTable(place).to_pyarrow_table())
    assert by_duckdb.aggregate("count(*)").fetchall() == [tuple(sessions[0])]
    assert (named.answers["named anew"], named.answers["rows"]) == (None, sessions), "after the name was dropped"


@pytest.mark.long
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


@pytest.mark.long
def test_a_name_moves_with_its_table_to_other_columns(named: Named) -> None:
    assert (named.answers["again"], named.answers["moved"]) == (None, None)
    assert named.answers["columns"] == [[1, None]]


def test_a_catalog_that_ends_with_its_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidSpec) as refused:
        name_tables(spark, NAME, {}, "clicks@0123456789abcdef")
    assert (refused.value.field, refused.value.value) == (FIELD, NAME)
    assert "spark.sql.catalogImplementation=hive" in refused.value.allowed


SAVED_AFTER = 1
TABLES = (NAME, f"{NAME}_late_events", f"{NAME}_quarantine")
SAVE = ("savepoint create", "--batch", str(SAVED_AFTER), "--id", "early")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path, clicks_spec() | {"sink": {"table": NAME}})


@pytest.fixture
def metastore(tmp_path: Path) -> HiveMetastore:
    return HiveMetastore(tmp_path)


def counts(stage: Stage) -> list[list[list[int]]]:
    found = landed(stage)
    return [[[rows.total()]] for rows in (found.sessions, found.late, found.quarantine)]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_stream_goes_back_and_forward_and_its_names_with_it(stage: Stage, metastore: HiveMetastore) -> None:
    files = write_click_files(stage.feed, 4, rate=12)
    save = command(stage, "savepoint create", "--id", "late")
    assert metastore.ask(command(stage, "run", "--until", "caught-up"), command(stage, *SAVE), save) == [0, 0, 0]
    before, by_name = landed(stage), counts(stage)
    early = command(stage, "restore", "early", approved=True)
    done, *left, ran = metastore.ask(early, *count(*TABLES), command(stage, "run", "--until", "caught-up"))
    assert (done, ran) == (0, 0)
    assert left[0][0][0] < by_name[0][0][0]

    late = command(stage, "restore", "late", approved=True)
    done, *found = metastore.ask(late, *count(*TABLES))
    assert (done, found) == (0, by_name)
    assert landed(stage) == before
    rescale = command(stage, "rescale", "--partitions", "1", approved=True)
    rescaled, back, *found = metastore.ask(rescale, command(stage, "rollback", approved=True), *count(*TABLES))
    assert (rescaled, back, found) == (0, 0, by_name)
    drained, compacted, *found = metastore.ask(
        command(stage, "run", "--until", "drained"), command(stage, "compact", "--yes"), *count(*TABLES)
    )
    assert (drained, compacted, found) == (0, 0, counts(stage))
    assert_path_as_defined(stage, files)

    whole = landed(stage).sessions.total()
    _, rows = metastore.ask(sql("DELETE FROM default.clicks WHERE client = 'acme'"), sql("TABLE default.clicks"))
    assert 0 < len(rows) < whole
    assert landed(stage).sessions.total() == len(rows)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_name_follows_a_moved_sink_and_no_other_stream_takes_it(
    stage: Stage, metastore: HiveMetastore, tmp_path: Path
) -> None:
    write_click_files(stage.feed, 4, rate=12)
    assert metastore.ask(command(stage, "run", "--until", "caught-up")) == [0]
    stage.write_spec(clicks_spec() | {"sink": {"table": NAME, "path": "lake"}})
    write_click_files(stage.feed, 6, rate=12)
    other = Stage.set_up(tmp_path / "other", clicks_spec() | {"sink": {"table": NAME}}, name="visits")
    write_click_files(other.feed, 1, rate=12)
    ran, told, rows, daily, refused = metastore.ask(
        command(stage, "run", "--until", "drained", "--apply"),
        command(stage, "report"),
        sql(f"FROM {NAME} SELECT input_file_name()"),
        *count(f"{NAME}_daily"),
        command(other, "run", "--until", "caught-up"),
    )
    assert (ran, told, refused) == (0, 0, InvalidSpec.exit_code)
    assert rows
    assert all("/lake/sessions/" in row[0] for row in rows)
    assert daily[0][0] > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_metastore_that_is_away_stops_a_start_and_no_restore(
    stage: Stage, metastore: HiveMetastore, tmp_path: Path
) -> None:
    files, away = write_click_files(stage.feed, 4, rate=12), HiveMetastore(tmp_path, NOBODY)
    assert metastore.ask(command(stage, "run", "--until", "caught-up")) == [0]
    before = landed(stage)
    assert away.ask(command(stage, "run", "--until", "drained")) == [StoreUnreachable.exit_code]
    assert landed(stage) == before
    assert away.ask(command(stage, *SAVE), command(stage, "restore", "early", approved=True)) == [0, 0]
    assert landed(stage).sessions.total() < before.sessions.total()
    assert metastore.ask(command(stage, "run", "--until", "drained")) == [0]
    assert_path_as_defined(stage, files)
