"""The table of the clients' timeouts: taken back when it goes, bounded, and never the end of a driver."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.home.stream_home import LineageHome
from sessionizer.spark.ingest.timeout_table import TimeoutAnnouncer, TimeoutTable
from sessionizer.stream_spec.document.stream import StreamSpec
from support.expected.checkpoint_log import CheckpointLog
from support.faults.bad_clicks import line
from support.processes.driver_process import DriverProcess
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def spec(**rules: Any) -> StreamSpec:
    inline = {"acme": "30 seconds"}
    written = clicks_spec(gap_timeout="10 seconds", client_timeouts=inline, **rules)
    return StreamSpec.model_validate({**written, "name": "clicks"})


def set_timeouts(home: Path, timeouts_ms: dict[str, int]) -> None:
    clients, timeouts = list(timeouts_ms), list(timeouts_ms.values())
    columns = {"client": pa.array(clients, pa.string()), "timeout_ms": pa.array(timeouts, pa.int64())}
    write_deltalake(home / "timeouts", pa.table(columns), mode="overwrite")


def said(home: Path) -> dict[str, int]:
    """What all punctuations together say: the last one holds."""
    told: dict[str, int] = {}
    for file in sorted((home / "lineage" / "punctuations").glob("*.json"), key=lambda file: file.stat().st_mtime_ns):
        told |= {change["client"]: change["timeout_ms"] for change in json.loads(file.read_text())["timeouts"]}
    return told


def table(spark: SparkSession, home: Path, **rules: Any) -> TimeoutTable | None:
    (home / "lineage" / "punctuations").mkdir(parents=True, exist_ok=True)
    return TimeoutTable.of(spark, spec(**rules), home, LineageHome(home / "lineage", home / "lineage"))


def announcer(spark: SparkSession, home: Path) -> TimeoutAnnouncer:
    found = table(spark, home, client_timeouts_table="timeouts")
    assert found is not None
    return TimeoutAnnouncer(found)


def test_a_table_that_leaves_the_spec_takes_its_timeouts_with_it(spark: SparkSession, tmp_path: Path) -> None:
    set_timeouts(tmp_path, {"acme": 60_000, "globex": 70_000})
    announcer(spark, tmp_path).look()
    assert said(tmp_path) == {"acme": 60_000, "globex": 70_000}
    drop_files = table(spark, tmp_path)
    assert drop_files is not None
    assert drop_files.announce_changes() == {"acme": 30_000, "globex": 10_000}
    assert said(tmp_path) == {"acme": 30_000, "globex": 10_000}
    assert drop_files.announce_changes() == {}


def test_a_stream_that_never_had_one_looks_at_nothing(spark: SparkSession, tmp_path: Path) -> None:
    assert table(spark, tmp_path) is None


@pytest.mark.parametrize("absurd", [2**63 - 1, NEVER_MS + 1])
def test_a_timeout_that_no_sum_could_bear_is_never(spark: SparkSession, tmp_path: Path, absurd: int) -> None:
    set_timeouts(tmp_path, {"acme": absurd, "globex": 0, "hooli": -1})
    announcer(spark, tmp_path).look()
    assert said(tmp_path) == {"acme": NEVER_MS}


def test_a_table_that_cannot_be_read_is_told_once_and_what_is_known_holds(spark: SparkSession, tmp_path: Path) -> None:
    set_timeouts(tmp_path, {"acme": 60_000})
    watched = announcer(spark, tmp_path)
    assert (watched.look() or "").endswith(": acme 1 minute")
    shutil.move(tmp_path / "timeouts", tmp_path / "elsewhere")
    line = watched.look()
    assert line is not None
    assert f" {tmp_path / 'timeouts'}: " in line
    assert line.endswith(" stay in force")
    assert (watched.look(), watched.warning is not None) == (None, True)
    assert said(tmp_path) == {"acme": 60_000}
    shutil.move(tmp_path / "elsewhere", tmp_path / "timeouts")
    assert (watched.look() or "").endswith("read again")
    assert watched.warning is None


def test_of_many_changes_the_first_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    set_timeouts(tmp_path, {f"c{number:03}": 1_000 for number in range(200)})
    line = announcer(spark, tmp_path).look()
    assert line is not None
    assert line.endswith("c009 1 second and 190 more")


def status(stage: Stage) -> str:
    return CliRunner().invoke(app, ["status", "--streams", str(stage.streams), "--home", str(stage.home)]).stdout


def bring(stage: Stage, driver: DriverProcess, number: int) -> None:
    """A file with one click, read by the driver in a batch that is committed."""
    name = f"{number}.json"
    (stage.feed / f".{name}").write_bytes(line(number, "ann"))
    (stage.feed / f".{name}").rename(stage.feed / name)
    driver.wait_for(lambda: any(name in batch.files for batch in CheckpointLog(stage.checkpoint).committed()), name)


@pytest.mark.long
def test_a_driver_goes_on_while_the_table_cannot_be_read(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(client_timeouts_table="timeouts"))
    set_timeouts(stage.home, {"acme": 60_000})
    log, elsewhere = stage.home / "timeouts" / "_delta_log", stage.home / "timeouts" / "elsewhere"
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for_line("query starts")
        bring(stage, driver, 1)
        assert "clicks: warning" not in status(stage)
        log.rename(elsewhere)
        driver.wait_for_line("cannot read the table of timeouts")
        said_so = "clicks: warning: the table of client timeouts cannot be read: the timeouts that were read last apply"
        driver.wait_for(lambda: said_so in status(stage), "a warning in the status")
        bring(stage, driver, 2)
        elsewhere.rename(log)
        driver.wait_for_line("the table of timeouts can be read again")
        driver.wait_for(lambda: "clicks: warning" not in status(stage), "a status without a warning")
        assert driver.said.count("cannot read the ") == 1
        assert not driver.ended
