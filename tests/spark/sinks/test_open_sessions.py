"""The table of open sessions: one row for each open session, none twice beside ``sessions``, none of a left lineage."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.core.definition.oracle import sessionize
from sessionizer.home.roots import uri_of
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.internals.delta_append import write_once
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.sinks import tables, write
from sessionizer.spark.sinks.examine import examine
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import batches_of, epoch_ms, open_stretches, table_rows
from support.places import REPOSITORY
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up
from support.streams.click_files import ClickFiles, write_aside
from support.streams.drawn_logs import drawn_cases
from support.streams.stage import PAYLOAD_COLUMNS, Stage, clicks_spec
from support.verbs.scene_verbs import VERBS, Scene

SHOWN = {"sink": {"open_sessions_every": "5 minutes"}}
SPEC = clicks_spec() | SHOWN | {"measures": {"pages": "count(page)"}}
Rows = Counter[tuple[Any, ...]]


def have_tables(spark: SparkSession, stage: Stage) -> None:
    spec = stage.spec()
    tables.have_tables(spark, stage.stream_home, spec, examine(spark, spec, stage.home).shapes(spec))


def read(spark: SparkSession, stage: Stage, *numbers: int, snapshot: bool = False) -> None:
    """Have the files of these numbers read. ``snapshot``: with one after the first of them."""
    assert stage.lineage
    clicks = sorted((stage.root / "clicks").iterdir())
    stage.bring(clicks[number] for number in numbers)
    if snapshot:
        punctuation.show_open_sessions(stage.stream_home.punctuations(stage.lineage))
    catch_up(spark, stage)


def defined(stage: Stage, files: ClickFiles) -> tuple[Rows, Rows]:
    """The sessions by the definition after the committed batches: those that ended, and those that are open."""
    logged = CheckpointLog(stage.checkpoint).committed()
    snapshots: dict[str, dict[str, int]] = {name: {} for batch in logged for name in batch.files - files.keys()}
    outcome = sessionize(batches_of(logged, files, snapshots), rules_of(stage.spec()))
    page, stretches = PAYLOAD_COLUMNS.index("page"), [each.events for each in open_stretches(outcome)]
    return Counter(
        (each.key, each.client, each.started_at_ms, each.ended_at_ms, each.event_count) for each in outcome.closed
    ), Counter(
        (
            *(of[0].event.key, of[0].event.client, of[0].clock_ms, of[-1].clock_ms, len(of)),
            sum(each.event.payload[page] is not None for each in of),
        )
        for of in stretches
    )


def assert_as_defined(spark: SparkSession, stage: Stage, files: ClickFiles) -> None:
    """All is seen that there is. A session that is over by now may still be shown as open."""
    ended, still_open = defined(stage, files)
    assert so_far(spark, stage) == ended + Counter(row[:-1] for row in still_open)


def so_far(spark: SparkSession, stage: Stage) -> Rows:
    """All sessions by the query of the page."""
    page = (REPOSITORY / "docs" / "reading-tables.md").read_text()
    (query,) = [block for block in page.split("```") if "sessions_so_far" in block]
    place = uri_of(stage.stream_home.tables)
    spark.sql(query.removeprefix("sql").replace("/srv/sessionizer/streams/web/tables", place))
    rows = spark.table("sessions_so_far").collect()
    return Counter(
        (row.key, row.client, epoch_ms(row.started_at), epoch_ms(row.ended_at), row.event_count) for row in rows
    )


def assert_each_once(spark: SparkSession, stage: Stage) -> None:
    """The query shows every ended session, and of the open ones those of which no event has ended."""
    sessions = table_rows(stage.table("sessions"))
    ended = {(row["key"], event["event_id"]) for row in sessions for event in row["events"]}
    left = [row for row in open_rows(stage) if (row["key"], row["first_event_id"]) not in ended]
    assert so_far(spark, stage).total() == len(sessions) + len(left)


def version(stage: Stage) -> int:
    return DeltaTable(uri_of(stage.table("open_sessions"))).version()


def open_rows(stage: Stage) -> list[dict[str, Any]]:
    return table_rows(stage.table("open_sessions"))


@pytest.mark.long
@pytest.mark.usefixtures("either_way")
def test_each_session_is_there_once_after_kills_and_restarts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, (files, _) = Stage.begun(tmp_path, SPEC), write_aside(tmp_path, 5, rate=12)
    have_tables(spark, stage)
    made = version(stage)
    read(spark, stage, 0, 1)
    assert (open_rows(stage), version(stage)) == ([], made)

    read(spark, stage, 2, snapshot=True)
    assert version(stage) == made + 1
    rows = open_rows(stage)
    assert {row["lineage"] for row in rows} == {stage.lineage}
    assert {True, False} == {row["settled"] for row in rows}
    _, still_open = defined(stage, files)
    found = Counter(
        (row["key"], row["client"], epoch_ms(row["started_at"]), epoch_ms(row["last_event_at"]), row["event_count"],
         row["pages"]) for row in rows
    )  # fmt: skip
    assert not still_open - found
    assert_as_defined(spark, stage, files)

    for number, before in ((3, True), (4, False)):
        with monkeypatch.context() as patched:
            patched.setattr(write, "write_once", dies(before=before))
            with pytest.raises(StreamingQueryException):
                read(spark, stage, number, snapshot=True)
        assert open_rows(stage) == rows or not before
        assert version(stage) == made + (1 if before else 3)
        rows = open_rows(stage)
        assert_each_once(spark, stage)
        catch_up(spark, stage)
        assert version(stage) == made + (2 if before else 3)
        assert open_rows(stage) == rows or before
        assert_as_defined(spark, stage, files)


def dies(*, before: bool) -> Callable[..., int | None]:
    """A write of a table that dies ``before`` or after that of the open sessions."""

    def written(*given: Any, replaces: bool = False) -> int | None:
        if before and replaces:
            raise OSError
        found = write_once(*given, replaces=replaces)
        if replaces:
            raise OSError
        return found

    return written


def test_a_driver_shows_them_while_it_runs_and_at_its_end(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(idle_after=None) | {"sink": {"open_sessions_every": "1 second"}})
    files, (*first, second, third) = write_aside(tmp_path, 5, rate=12)
    stage.bring(first)
    with DriverProcess.start(stage, "first", "stopped") as driver:
        driver.wait_for(lambda: DeltaTable.is_deltatable(uri_of(stage.table("open_sessions"))), "its tables")
        driver.wait_for(lambda: bool(open_rows(stage)), "open sessions")
        seen = version(stage)
        stage.bring([second])
        driver.wait_for(lambda: version(stage) > seen, "newer ones")
        driver.kill_all()
    assert_each_once(spark, stage)
    stage.bring([third])
    run_to_end(stage, "second", "caught-up")
    assert_as_defined(spark, stage, files)
    _, still_open = defined(stage, files)
    shown = Counter((row["key"], epoch_ms(row["last_event_at"]), row["event_count"]) for row in open_rows(stage))
    assert not Counter((key, last, count) for key, _, _, last, count, _ in still_open.elements()) - shown


@pytest.mark.parametrize("name", drawn_cases(("apply_in_place", "rescale", "rollback", "restore"), 1))
def test_a_command_empties_the_table(spark: SparkSession, tmp_path: Path, name: str) -> None:
    scene, verb = Scene.at(spark, tmp_path), VERBS[name]
    verb.prepare(scene)
    add_row(spark, scene.stage, "of a driver")
    verb.type(scene)
    assert open_rows(scene.stage) == []


def test_a_driver_keeps_the_rows_of_its_lineage_alone(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path, SPEC)
    home, lineage = stage.stream_home, str(stage.lineage)
    for each in (lineage, "20261123T080000-abc123"):
        add_row(spark, stage, each)
    for _ in range(2):
        tables.delete_open_sessions(spark, home, (None, lineage))
        found = [row["lineage"] for row in open_rows(stage)], version(stage)
    assert found == ([lineage], 3)
    for _ in range(2):  # of a spec that wants no such table any more
        tables.delete_open_sessions(spark, home)
        assert (open_rows(stage), version(stage)) == ([], 4)


def add_row(spark: SparkSession, stage: Stage, lineage: str) -> None:
    file = stage.streams / f"{stage.name}.yaml"
    text = file.read_text()
    stage.write_spec({**clicks_spec(), "sink": SHOWN["sink"]})
    have_tables(spark, stage)
    location = uri_of(stage.table("open_sessions"))
    frame = spark.range(1).select(F.lit(lineage).alias("lineage"), F.lit("ann").alias("key"))
    frame.write.format("delta").mode("append").save(location)
    file.write_text(text)
