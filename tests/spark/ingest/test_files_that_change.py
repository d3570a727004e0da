"""A file that is gone before it was read is an error that names it, and the stream goes on when it is back."""

import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from sessionizer.checkpoint.log_entries import list_begun_batches
from sessionizer.cli.app import app
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.errors import InvalidSpec, SourceFilesGone, SourceUnreachable
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.ingest.punctuation import TimeoutTable
from sessionizer.spark.ingest.source import read_source
from sessionizer.stream_spec.document.source import FilesSource
from sessionizer.stream_spec.document.stream import StreamSpec
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, table_rows
from support.faults.bad_clicks import line
from support.places import known, opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up, drain
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec


@pytest.mark.long
def test_a_file_that_is_gone_unread_is_named_and_an_empty_one_of_its_name_lets_the_stream_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=10))
    (stage.feed / "0.json").write_bytes(line(0, "ann"))
    catch_up(spark, stage)
    for number in (1, 2):
        (stage.feed / f"{number}.json").write_bytes(line(number, "ann"))
    begun = len(list_begun_batches(stage.checkpoint))
    with monkeypatch.context() as patched:
        patched.setattr(
            "sessionizer.spark.driver.prepared_query.PreparedQuery._write", Mock(side_effect=RuntimeError("killed"))
        )
        with pytest.raises(Exception, match="killed"):
            catch_up(spark, stage)
    assert len(list_begun_batches(stage.checkpoint)) == begun + 1, "it is planned, and nothing of it was read"

    for name in ("1.json", "2.json"):
        kept = (stage.feed / name).rename(tmp_path / "kept")
        with pytest.raises(SourceFilesGone) as gone:
            catch_up(spark, stage)
        assert [uri.rpartition("/")[2] for uri in gone.value.files] == [name]
        if name == "1.json":
            kept.rename(stage.feed / name)
    (stage.feed / "2.json").touch()
    drain(spark, stage)
    assert_ann_has(stage, 2)


def assert_ann_has(stage: Stage, count: int) -> None:
    """There is one session, of ann, with so many events."""
    assert [(row["key"], row["event_count"]) for row in table_rows(stage.table("sessions"))] == [("ann", count)]


@pytest.mark.long
def test_an_idle_stream_whose_folder_goes_is_not_idle(tmp_path: Path) -> None:
    """Spark takes a missing folder for an empty one."""
    stage = Stage.set_up(tmp_path, clicks_spec())
    (stage.feed / "0.json").write_bytes(line(0, "ann"))
    with DriverProcess.start(stage, "one", "stopped") as driver:
        driver.wait_for_line("batch 0 ")
        away = stage.feed.rename(tmp_path / "away")
        assert driver.wait() == SourceUnreachable.exit_code, driver.said[-4_000:]
    away.rename(stage.feed)
    run_to_end(stage, "two")
    assert_ann_has(stage, 1)


DAY_S = 24 * 60 * 60


def unlimited_spec(**options: str) -> dict[str, object]:
    """The default limits of a batch hold: the spec has none of its own."""
    spec = clicks_spec()
    spec["source"]["options"] = options
    return spec


def files_by_batch(stage: Stage, files: ClickFiles) -> list[set[str]]:
    brought = [batch.files & files.keys() for batch in CheckpointLog(stage.checkpoint).committed()]
    return [set(names) for names in brought if names]


@pytest.mark.long
def test_a_default_limit_makes_several_batches_of_what_is_there_however_old(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage.set_up(tmp_path, unlimited_spec())
    files = write_click_files(stage.feed, 6)
    largest = max((stage.feed / name).stat().st_size for name in files)
    monkeypatch.setattr("sessionizer.spark.ingest.source.TEXT_BYTES", largest)
    aside = {name: (stage.feed / name).rename(tmp_path / name) for name in sorted(files)[3:]}
    catch_up(spark, stage)
    first = files_by_batch(stage, files)
    assert set().union(*first) == files.keys() - aside.keys(), "it has caught up"
    read_at_s = max((stage.feed / name).stat().st_mtime for name in set().union(*first))
    for name, path in aside.items():
        os.utime(path, (read_at_s - 30 * DAY_S,) * 2)
        path.rename(stage.feed / name)
    drain(spark, stage)
    batches = files_by_batch(stage, files)
    assert batches[: len(first)] == first
    assert len(first) > 1
    assert len(batches) > len(first) + 1
    assert sum(map(len, batches)) == len(files), "each once"
    assert_as_defined(stage, files)


@pytest.mark.long
def test_a_file_that_is_older_than_the_spec_allows_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, unlimited_spec(maxFileAge="7d"))
    files = write_click_files(stage.feed, 2)
    newest, old = sorted(files)
    aside = (stage.feed / old).rename(tmp_path / old)
    catch_up(spark, stage)
    os.utime(aside, ((stage.feed / newest).stat().st_mtime - 30 * DAY_S,) * 2)
    aside.rename(stage.feed / old)
    catch_up(spark, stage)
    assert files_by_batch(stage, files) == [{newest}]


def on_arrival(time_mode: str) -> dict[str, object]:
    """Sessions that run on the wall clock, or end by a closing event or a cap alone."""
    return clicks_spec(time_mode=time_mode, gap_timeout="1 second", max_events=2)


@pytest.mark.parametrize("time_mode", ["processing_time", pytest.param("none", marks=pytest.mark.long)])
def test_on_arrival_a_query_ends_when_it_has_caught_up(spark: SparkSession, tmp_path: Path, time_mode: str) -> None:
    stage = Stage.set_up(tmp_path, on_arrival(time_mode))
    files = write_click_files(stage.feed, 2)
    catch_up(spark, stage)
    assert set().union(*files_by_batch(stage, files)) == files.keys()


@pytest.mark.long
def test_a_nightly_run_on_the_wall_clock_closes_what_is_over_though_nothing_new_came(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, on_arrival("processing_time"))
    write_click_files(stage.feed, 1)
    run_to_end(stage, "first", until="caught-up")
    before = sum(row["event_count"] for row in table_rows(stage.table("sessions")))
    run_to_end(stage, "second", until="caught-up")
    assert sum(row["event_count"] for row in table_rows(stage.table("sessions"))) > before


LETTERS = "a:*?[]{}\\,%20# é+&='\"!^-"
SEEN_IN_LIFE = ["2024-05-01T10:00:00.json", "a[1].json", "{b,c}.json", "d*.json", "e?.json", "f%20g.json", "h i.json"]


def read(spark: SparkSession, home: Path, path: str) -> list[str]:
    source = FilesSource(format="files", path=path, encoding="text")
    return sorted(row["value"] for row in read_source(spark, source, home, 1_000, stream=False).collect())


@pytest.mark.parametrize(
    ("folder", "others"),
    [("feed", ()), pytest.param("feed/a [b]{c}*", ("a b", "a [b]c", "a [b]{c}d"), marks=pytest.mark.long)],
)
def test_each_file_is_read_whatever_it_is_called(
    spark: SparkSession, tmp_path: Path, folder: str, others: Sequence[str]
) -> None:
    spec: dict[str, Any] = clicks_spec(files_per_batch=100)
    spec["source"]["path"] = folder
    stage, drawn = Stage.set_up(tmp_path, spec), random.Random(len(others))
    names = [*SEEN_IN_LIFE, "10:00", "x:y:z", *(f"n{n}" + "".join(drawn.choices(LETTERS, k=8)) for n in range(10))]
    if others:  # Hadoop knows no pattern with a colon
        names = [*SEEN_IN_LIFE[1:], *(name.replace(":", "") for name in names[len(SEEN_IN_LIFE) + 2 :])]
    (stage.home / folder).mkdir(exist_ok=True)
    for number, name in enumerate(names):
        (stage.home / folder / name).write_bytes(line(number, "ann"))
    for other in others:
        (stage.feed / other).mkdir()
        (stage.feed / other / "x").write_bytes(line(0, "of another folder"))
    assert catch_up(spark, stage) == [], "nothing was put aside"
    drain(spark, stage)
    assert_ann_has(stage, len(names))


@pytest.mark.parametrize("name", ["a[1]", "{b,c}", "d*", "e?", "f\\g", "h%20i", "j#k", "l:m", "n]", "o{", "p\\[q"])
def test_a_folder_is_read_whatever_it_is_called(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_text("its own\n")
    for other in ("a1", "b", "dd", "ee", "fg", "h i"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "file").write_text("of another\n")
    assert read(spark, tmp_path, name) == ["its own"]


@pytest.mark.parametrize(("folder", "path"), [("a[1]:b", "a[1]:b"), ("day1", "file://{root}/day*")])
def test_a_folder_that_hadoop_cannot_look_for_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, folder: str, path: str
) -> None:
    (tmp_path / folder).mkdir()
    path = path.format(root=tmp_path)
    with pytest.raises(InvalidSpec) as refused:
        read(spark, tmp_path, path)
    assert (refused.value.field, refused.value.value) == ("source.path", path)


def test_subfolders_are_read_where_the_spec_says_so(spark: SparkSession, tmp_path: Path) -> None:
    spec: dict[str, Any] = clicks_spec(files_per_batch=100)
    spec["source"]["options"]["recursiveFileLookup"] = True
    stage = Stage.set_up(tmp_path, spec)
    for number, folder in enumerate([".", "2024/05/01", "day=1", "a[1]/10:00"]):
        (stage.feed / folder).mkdir(parents=True, exist_ok=True)
        (stage.feed / folder / "part-0").write_bytes(line(number, "ann"))
    drain(spark, stage)
    assert_ann_has(stage, 4)


def set_timeouts(home: Path, timeouts_ms: dict[str, int]) -> None:
    columns = {"client": pa.array(timeouts_ms, pa.string()), "timeout_ms": pa.array(timeouts_ms.values(), pa.int64())}
    write_deltalake(home / "timeouts", pa.table(columns), mode="overwrite")


def said(home: Path) -> dict[str, int]:
    """What all punctuations together say: the last one holds."""
    told: dict[str, int] = {}
    folder = opened(StreamHome.of(home, "clicks").punctuations("L1"))
    for file in sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns):
        told |= {change["client"]: change["timeout_ms"] for change in json.loads(file.read_text())["timeouts"]}
    return told


def table(spark: SparkSession, home: Path, **rules: Any) -> TimeoutTable | None:
    stream = StreamHome.of(home, "clicks")
    for folder in (opened(stream.punctuations("L1")), opened(stream.lineage("L1").records)):
        folder.mkdir(parents=True, exist_ok=True)
    written = clicks_spec(gap_timeout="10 seconds", client_timeouts={"acme": "30 seconds"}, **rules)
    spec = StreamSpec.model_validate({**written, "name": "clicks"})
    return TimeoutTable.of(spark, spec, stream, "L1")


def announcer(spark: SparkSession, home: Path) -> TimeoutTable:
    return known(table(spark, home, client_timeouts_table="timeouts"))


def test_a_table_that_leaves_the_spec_takes_its_timeouts_with_it(spark: SparkSession, tmp_path: Path) -> None:
    assert table(spark, tmp_path) is None, "it never had one"
    set_timeouts(tmp_path, {"acme": 60_000, "globex": 70_000})
    announcer(spark, tmp_path).look()
    assert said(tmp_path) == {"acme": 60_000, "globex": 70_000}
    drop_files = known(table(spark, tmp_path))
    assert drop_files.announce_changes() == {"acme": 30_000, "globex": 10_000}
    assert said(tmp_path) == {"acme": 30_000, "globex": 10_000}
    assert drop_files.announce_changes() == {}


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
    line = known(watched.look())
    assert f" {tmp_path / 'timeouts'}: " in line
    assert line.endswith(" stay in force")
    assert (watched.look(), watched.warning is not None) == (None, True)
    assert said(tmp_path) == {"acme": 60_000}
    shutil.move(tmp_path / "elsewhere", tmp_path / "timeouts")
    assert (watched.look() or "").endswith("read again")
    assert watched.warning is None


def test_of_many_changes_the_first_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    set_timeouts(tmp_path, {f"c{number:03}": 1_000 for number in range(200)})
    line = known(announcer(spark, tmp_path).look())
    assert line.endswith("c009 1 second and 190 more")


def status(stage: Stage) -> str:
    return CliRunner().invoke(app, ["status", "--streams", str(stage.streams), "--home", str(stage.home)]).stdout


def bring(stage: Stage, driver: DriverProcess, number: int) -> None:
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
