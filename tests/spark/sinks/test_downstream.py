"""Readers of docs/reading-tables.md and compactions follow a live stream, a restore and its rollback.

What readers run is the code of the page: the copy by MERGE, and the dbt model.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pytest
import yaml
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import read_last_commit
from sessionizer.control.execution import execute
from sessionizer.control.records.erasure_record import SECRET, read_erasures
from sessionizer.home.roots import uri_of
from sessionizer.spark.sinks.tables import have_tables
from sessionizer.spark.state.commands.erasures import EraseRunner
from sessionizer.spark.state.commands.restores import RollbackRunner
from sessionizer.state.commands.erasures import Erase
from sessionizer.state.commands.restores import Rollback
from sessionizer.state.compaction.plan import COMPACTION_FILE
from sessionizer.state.lineages.table_changes import changes_of_active
from support.expected.landed import assert_as_defined, landed
from support.places import REPOSITORY, mounted
from support.processes.driver_process import JOBS, DriverProcess, environment, run_to_end
from support.processes.in_process import catch_up
from support.releases.environments import UV
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import approved, carry_out
from support.verbs.restored_stream import FILES, SAVED_AFTER, Restored, save

pytestmark = pytest.mark.long

PAGE = (REPOSITORY / "docs" / "reading-tables.md").read_text()
WHERE = "/srv/sessionizer/streams/web/tables/sessions"
"""The place of the table on the page."""
OF_A_ROW = ("session_id", "lineage", "batch_id")
Rows = set[tuple[Any, ...]]
Reader = Callable[[], Rows]


def blocks(heading: str, kind: str) -> list[str]:
    """The blocks of code of a kind below a heading of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)


def copy_by_merge(spark: SparkSession, stage: Stage, folder: Path) -> Reader:
    sessions, mine = uri_of(stage.table("sessions")), str(folder / "mine")
    spark.read.format("delta").load(sessions).limit(0).write.format("delta").save(mine)
    (code,) = blocks("A copy of your own", "python")
    once = code.replace(".start()", ".trigger(availableNow=True).start().awaitTermination()")
    assert once != code
    names = {"spark": spark, "SESSIONS": sessions, "MINE": mine, "CHECKPOINT": str(folder / "checkpoint")}

    def read() -> Rows:
        exec(once, names)  # noqa: S102  the code of the page
        return {(*row,) for row in spark.read.format("delta").load(mine).select(*OF_A_ROW).collect()}

    return read


def dbt_model(stage: Stage, folder: Path) -> Reader:
    # 1.12 has a part in Rust, which not every machine can build
    packages = ("dbt-core<1.12", "dbt-duckdb", "deltalake", "pyarrow", f"duckdb=={duckdb.__version__}")
    subprocess.run([UV, "venv", "--quiet", folder / "env"], check=True)
    subprocess.run([UV, "pip", "install", "--quiet", "--python", folder / "env/bin/python", *packages], check=True)
    profiles, sources = blocks("A dbt model", "yaml")
    (model,) = blocks("A dbt model", "sql")
    (folder / "models").mkdir()
    (folder / "profiles.yml").write_text(profiles)
    (folder / "models" / "sources.yml").write_text(sources.replace(WHERE, str(mounted(stage.table("sessions")))))
    (folder / "models" / "visits.sql").write_text(model)
    (folder / "dbt_project.yml").write_text(yaml.safe_dump({"name": "visits", "version": "1.0", "profile": "visits"}))

    def read() -> Rows:
        argv = [str(folder / "env/bin/dbt"), "run", "--profiles-dir", "."]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        with duckdb.connect(str(folder / "visits.duckdb"), read_only=True) as database:
            return {*database.table("visits").select(*OF_A_ROW).fetchall()}

    return read


def rows_of(stage: Stage) -> Rows:
    """The rows of the table, which DuckDB and Polars see alike."""
    place = str(mounted(stage.table("sessions")))
    sessions = deltalake.DeltaTable(place).to_pyarrow_table()
    found = {*duckdb.from_arrow(sessions).select(*OF_A_ROW).fetchall()}
    assert found == {*polars.read_delta(place).select(OF_A_ROW).iter_rows()}
    return found


def test_each_reader_of_the_page_follows_a_restore_and_its_rollback(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path / "stream", {**clicks_spec(), "sink": {"change_feed": True}})
    files = write_click_files(stage.feed, FILES, rate=12)
    catch_up(spark, stage)
    have_tables(spark, stage.stream_home, stage.spec(), ())  # as the start of a driver does: it turns the feed on
    (tmp_path / "merge").mkdir()
    (tmp_path / "dbt").mkdir()
    readers = {"merge": copy_by_merge(spark, stage, tmp_path / "merge"), "dbt": dbt_model(stage, tmp_path / "dbt")}

    def follow() -> Rows:
        found = rows_of(stage)
        for name, read in readers.items():
            assert read() == found, name
        return found

    first = follow()
    restored = Restored.saved(spark, stage, SAVED_AFTER, files)
    restored.restore()
    kept = follow()
    assert kept < first, "a restore deletes rows"
    catch_up(spark, stage)
    again = follow()
    assert kept < again
    assert again != first, "they are of another lineage"
    carry_out(RollbackRunner(spark=spark, home=stage.stream_home, command=Rollback()))
    assert follow() == first, "a rollback brings them back"


def test_a_copy_follows_an_erasure_while_the_old_files_wait_for_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "a secret of the tests")
    stage = Stage.begun(tmp_path / "stream", {**clicks_spec(), "sink": {"change_feed": True}})
    write_click_files(stage.feed, FILES, rate=12)
    catch_up(spark, stage)
    have_tables(spark, stage.stream_home, stage.spec(), ())
    read = copy_by_merge(spark, stage, tmp_path)
    first = read()
    sessions = spark.read.format("delta").load(uri_of(stage.table("sessions")))
    people = tuple(sorted({str(row.key) for row in sessions.select("key").distinct().collect()})[:2])
    erase = Erase(keys="-", wait_for_readers=1)
    runner = EraseRunner(spark=spark, home=stage.stream_home, command=erase, people=people, folders=())
    execute(approved(runner), runner)
    (noted,) = read_erasures(stage.stream_home)
    in_time: list[Rows] = []
    sweep = runner._sweep(people, noted.erasure, noted.approved_at)
    sweep.erase_rows("erase of the tests", lambda: in_time.append(read()))
    assert in_time == [rows_of(stage)]
    assert in_time[0] < first
    mine = spark.read.format("delta").load(str(tmp_path / "mine"))
    assert mine.where(mine.key.isin(*people)).count() == 0
    assert read() == in_time[0], "the old files are gone, and it has read all of them"


COMPACTED_WITHIN_S = 1_200
"""A compaction gives way to every other process of the machine."""
MANY = 40
ENOUGH = 6
"""Batches that leave small files."""


def begin_compaction(stage: Stage, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(JOBS / "main.py"), "compact", stage.name, "--json", *more]
    command += ["--home", str(stage.home), "--streams", str(stage.streams), "--master", "local[2]"]
    with (stage.root / "compaction.log").open("w") as log:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(), start_new_session=True
        )


def compacted(stage: Stage, *more: str) -> dict[str, Any]:
    process = begin_compaction(stage, *more)
    out, _ = process.communicate(timeout=COMPACTED_WITHIN_S)
    assert process.returncode == 0, (stage.root / "compaction.log").read_text()[-4_000:]
    told: dict[str, Any] = json.loads(out)
    return told


@pytest.fixture
def running(tmp_path: Path) -> tuple[Stage, ClickFiles]:
    stage = Stage.set_up(tmp_path, clicks_spec() | {"trigger_interval": "3 seconds"})
    return stage, write_click_files(stage.feed, MANY, rate=8)


def await_batches(stage: Stage, driver: DriverProcess, count: int) -> None:
    driver.wait_for(lambda: stage.lineage is not None and (read_last_commit(stage.checkpoint) or 0) >= count, "batches")


def test_a_running_stream_is_compacted_and_goes_on_as_if_nothing_was(running: tuple[Stage, ClickFiles]) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver, ENOUGH)
        planned = compacted(stage, "--plan")
        assert planned["tables"] is None
        assert COMPACTION_FILE.of(stage.stream_home).require() is None
        done = {table["name"]: table for table in compacted(stage, "--yes")["tables"]}
        assert done["quarantine"]["files_before"] > done["quarantine"]["files"]
        assert not any(table["overtaken"] for table in done.values())
        assert COMPACTION_FILE.of(stage.stream_home).require() is not None
        reached = read_last_commit(stage.checkpoint) or 0
        await_batches(stage, driver, reached + 2)
    stage.write_spec(clicks_spec(files_per_batch=MANY))
    run_to_end(stage, "d1", apply=True)
    assert changes_of_active(stage.stream_home) == ()
    assert_as_defined(stage, files)


@pytest.mark.parametrize("line", ["starting Spark", "sessions: ", "quarantine: "])
def test_one_that_is_killed_is_done_again(running: tuple[Stage, ClickFiles], line: str) -> None:
    stage, files = running
    with DriverProcess.start(stage, "d0", until="stopped") as driver:
        await_batches(stage, driver, ENOUGH)
        victim = begin_compaction(stage, "--yes")
        log = stage.root / "compaction.log"
        driver.wait_for(lambda: line in log.read_text(), line, COMPACTED_WITHIN_S)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        assert COMPACTION_FILE.of(stage.stream_home).require() is None
        compacted(stage, "--yes")
    stage.write_spec(clicks_spec(files_per_batch=MANY))
    run_to_end(stage, "d1", apply=True)
    assert_as_defined(stage, files)


def test_a_stream_goes_back_and_forward_again_over_compactions(spark: SparkSession, tmp_path: Path) -> None:
    restored = Restored.set_up(spark, tmp_path)
    stage = restored.stage
    before = landed(stage)
    save(spark, stage, "later")
    compacted(stage, "--yes")
    restored.restore()
    assert landed(stage) != before
    compacted(stage, "--yes")
    restored.choose("later")
    restored.restore("20261123T090000-abc123")
    assert landed(stage) == before
    compacted(stage, "--yes")
    assert landed(stage) == before
