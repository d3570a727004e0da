"""A Delta table that others change while a stream reads it: rows rewritten, columns renamed and dropped."""

from collections.abc import Callable
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sessionizer.causes.table import remedy_for
from sessionizer.errors import QueryFailed
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.spark.failures.query_failure import classify_failure
from support.expected.landed import table_rows
from support.processes.driver_process import DriverProcess
from support.processes.in_process import catch_up, drain
from support.streams.drawn_logs import drawn_cases
from support.streams.stage import Stage

COLUMNS = "user string, ts bigint, id string, page string, junk string"
COLUMN_NAMES = "user, ts, id, page, junk"
MINUTE_MS = 60_000


class Table:
    """A Delta table that is a stream's source, with columns by name."""

    def __init__(self, spark: SparkSession, tmp_path: Path, **options: str) -> None:
        """Make a table of which the stream has read the row a1."""
        self.spark, self.path = spark, tmp_path / "lake"
        self.name = f"delta.`{self.path}`"
        properties = "tblproperties ('delta.columnMapping.mode' = 'name')"
        spark.sql(f"create table {self.name} ({COLUMNS}) using delta {properties}")
        mapping = {"key": "user", "event_time": "timestamp_millis(ts)", "event_id": "id", "payload": {"page": "page"}}
        spec = {
            "source": {"format": "delta", "path": str(self.path), "options": options},
            "mapping": mapping,
            "rules": {"watermark_delay": "10 minutes", "gap_timeout": "30 minutes"},
            "key_groups": 4,
        }
        self.stage = Stage.set_up(tmp_path, spec)
        self.append("a1")
        catch_up(spark, self.stage)

    def append(self, *events: str, columns: str = COLUMN_NAMES) -> None:
        values = ", ".join(f"({self.row(each, columns)})" for each in events)
        self.spark.sql(f"insert into {self.name} ({columns}) values {values}")  # noqa: S608  a table of the test

    def row(self, event: str, columns: str) -> str:
        number = int(event[1:])
        values = {"user": "'u'", "ts": str(1_700_000_000_000 + number * MINUTE_MS), "id": f"'{event}'"}
        return ", ".join(values.get(name, f"'{name.removesuffix('2')} of {event}'") for name in columns.split(", "))

    def upsert(self, *events: str) -> None:
        rows = self.spark.sql(" union all ".join(f"select {self.row(each, COLUMN_NAMES)}" for each in events))
        rows = rows.toDF(*COLUMN_NAMES.split(", "))
        merge = DeltaTable.forPath(self.spark, str(self.path)).alias("t").merge(rows.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def alter(self, what: str) -> None:
        self.spark.sql(f"alter table {self.name} {what}")

    def read(self) -> list[str]:
        drain(self.spark, self.stage)
        events = [event for session in table_rows(self.stage.table("sessions")) for event in session["events"]]
        assert all(event["page"] == f"page of {event['event_id']}" for event in events), events
        return sorted(event["event_id"] for event in events)


@pytest.mark.parametrize(
    ("option", "read"),
    [
        ("ignoreChanges", ["a1", "a2", "a3", "a4"]),
        pytest.param("skipChangeCommits", ["a1"], marks=pytest.mark.long),
    ],
)
def test_new_rows_of_an_upsert(spark: SparkSession, tmp_path: Path, option: str, read: list[str]) -> None:
    """The page says which of the two options loses them."""
    table = Table(spark, tmp_path, **{option: "true"})
    for new in ("a2", "a3", "a4"):
        table.upsert("a1", new)
    assert table.read() == read


def test_an_upsert_without_the_option_ends_the_stream_and_names_the_one_that_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(spark, tmp_path)
    table.upsert("a1", "a2")
    with pytest.raises(StreamingQueryException) as ended:
        catch_up(spark, table.stage)
    error = classify_failure("clicks", ended.value)
    assert isinstance(error, QueryFailed)
    assert error.cause == "source_rewritten"
    assert "ignoreChanges" in remedy_for(error)


def events_read(stage: Stage) -> int:
    """Events that a live driver has noted."""
    return BatchLog(stage.stream_home.lineage(stage.lineage).batches).life.admitted if stage.lineage else 0


def rename_and_back(table: Table) -> None:
    table.alter("rename column junk to junk2")
    table.alter("rename column junk2 to junk")


def drop_between(table: Table) -> None:
    table.append("a2")
    table.alter("drop column junk")


def rename_a_used_one_and_back(table: Table) -> None:
    table.alter("rename column page to page2")
    table.append("a2", columns="user, ts, id, page2")
    table.alter("rename column page2 to page")


CHANGES: dict[str, Callable[[Table], None]] = {
    "renamed and back": rename_and_back,
    "renamed": lambda table: table.alter("rename column junk to junk2"),
    "dropped": lambda table: table.alter("drop column junk"),
    "dropped after rows": drop_between,
    "a used one renamed and back": rename_a_used_one_and_back,
}


@pytest.mark.parametrize("change", drawn_cases(CHANGES, 1))
def test_a_column_that_the_stream_does_not_use_may_change(spark: SparkSession, tmp_path: Path, change: str) -> None:
    table = Table(spark, tmp_path)
    CHANGES[change](table)
    table.append("a4", columns="user, ts, id, page")
    assert table.read() == ["a1", *(["a2"] if "rows" in change or "used" in change else []), "a4"]


@pytest.mark.long
def test_a_column_may_change_while_a_driver_runs(spark: SparkSession, tmp_path: Path) -> None:
    changes = ("rename column junk to junk2", "drop column junk2", "drop column page", "add column page string")
    table = Table(spark, tmp_path)
    with DriverProcess.start(table.stage, "a", until="stopped") as driver:
        driver.wait_for_line("query starts")
        for number, altered in enumerate([changes[:1], changes[1:2], changes[2:]], start=1):
            driver.wait_for(lambda: events_read(table.stage) == number, "reading on")  # noqa: B023
            for change in altered:
                table.alter(change)
            table.append(f"a{number + 1}", columns="user, ts, id, page")
        driver.wait_for(lambda: events_read(table.stage) == 4, "reading on")
    assert table.read() == ["a1", "a2", "a3", "a4"]


@pytest.mark.parametrize("read_by_then", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_name_that_means_another_column_is_refused_while_rows_are_unread(
    spark: SparkSession, tmp_path: Path, *, read_by_then: bool
) -> None:
    table = Table(spark, tmp_path)
    table.append("a2")
    if read_by_then:
        catch_up(spark, table.stage)
    for change in ("drop column page", "add column page string"):
        table.alter(change)
    table.append("a3", columns="user, ts, id, page")
    if read_by_then:
        assert table.read() == ["a1", "a2", "a3"]
        return
    with pytest.raises(QueryFailed, match="'page'") as ended:
        table.read()
    assert ended.value.cause == "schema_change"
