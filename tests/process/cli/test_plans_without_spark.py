"""Plans of the commands that go back, made by a process that has no Spark, of a stream that Spark has written."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin
from support.places import REPOSITORY, opened
from support.releases.cut_release import CANONICAL, NATIVE, RELEASES, unpack_release
from support.streams.stage import Stage

NO_SPARK_HERE = "no Spark here"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stream of the newest release, with both kinds of savepoint, and a row of a batch behind them."""
    newest = max(folder for folder in RELEASES.iterdir() if folder.is_dir())
    unpacked = unpack_release(newest, tmp_path / "stage", CANONICAL, NATIVE)
    committed = read_committed_batch(unpacked.stream_home)
    append_row(opened(unpacked.table("sessions")), committed.lineage, committed.batch_id + 1)
    return unpacked


def append_row(table: Path, lineage: str, batch_id: int) -> None:
    """A commit as a driver makes one, with the columns that a plan reads, and without statistics."""
    row = pa.Table.from_pylist([{"lineage": lineage, "batch_id": batch_id, "date": None}])
    row = row.set_column(2, "date", pa.array([20_000], pa.int32()).cast(pa.date32()))
    pq.write_table(row, table / "late.parquet")
    version = max(int(commit.stem) for commit in (table / "_delta_log").glob("*.json")) + 1
    actions = [
        {"txn": {"appId": lineage, "version": batch_id}},
        {"add": {"path": "late.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}},
    ]
    (table / "_delta_log" / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def plan_in_process(tmp_path: Path, stage: Stage, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command where neither PySpark nor Java can be loaded."""
    for package in ("pyspark", "delta"):
        (tmp_path / "no spark" / package).mkdir(parents=True, exist_ok=True)
        (tmp_path / "no spark" / package / "__init__.py").write_text(f"raise ImportError({NO_SPARK_HERE!r})")
    environment = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "no spark"), str(REPOSITORY / "jobs")]),
        "PATH": "",
        "HOME": str(tmp_path),
    }
    program = "from sessionizer.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *command, "--home", str(stage.home)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def begin_next_lineage(home: StreamHome, left: str) -> str:
    """A lineage that a rescale made, without a batch so far."""
    lineage = make_lineage(home, SPEC_FILE.of(home, left).require())
    batch_id = read_committed_batch(home).batch_id
    ORIGIN_FILE.of(home, lineage).write(Origin("rescale", 1, left, batch_id))
    activate_lineage(home, lineage, left, left)
    return lineage


def planned(tmp_path: Path, stage: Stage, *command: str) -> dict[str, Any]:
    ended = plan_in_process(tmp_path, stage, *command, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("kind", [CANONICAL, NATIVE])
def test_a_restore_is_planned_without_spark(tmp_path: Path, stage: Stage, kind: str) -> None:
    plan = planned(tmp_path, stage, "restore", stage.name, kind)
    assert (plan["savepoint"], plan["leaves"]) == (kind, stage.lineage)
    assert {table["table"]: table["by_day"] for table in plan["tables"]} == {
        "sessions": {"2024-10-04": 1}, "quarantine": {}, "late_events": {},
    }  # fmt: skip
    assert (plan["replay"]["items"], plan["replay"]["missing"]) == (0, [])
    text = plan_in_process(tmp_path, stage, "restore", stage.name, kind).stdout
    assert plan["digest"] in text


def test_a_restore_into_other_partitions_is_planned_without_spark(tmp_path: Path, stage: Stage) -> None:
    plan = planned(tmp_path, stage, "restore", stage.name, CANONICAL, "--partitions", "1")
    assert [each["name"] for each in plan["differences"]] == ["partitions"]


def test_a_rollback_is_planned_without_spark(tmp_path: Path, stage: Stage) -> None:
    left = str(stage.lineage)
    leaves = begin_next_lineage(stage.stream_home, left)
    plan = planned(tmp_path, stage, "rollback", stage.name)
    assert (plan["leaves"], plan["lineage"], plan["verb"]) == (leaves, left, "rescale")
    assert {table["table"]: table["by_day"] for table in plan["tables"]} == {
        "sessions": {}, "quarantine": {}, "late_events": {},
    }  # fmt: skip


def test_a_plan_that_spark_must_make_starts_it(tmp_path: Path, stage: Stage) -> None:
    assert plan_in_process(tmp_path, stage, "restore", stage.name, CANONICAL, "--exclude", "a.json").returncode != 0
    log = opened(stage.table("sessions")) / "_delta_log"
    (log / f"{9:020d}.checkpoint.{'a' * 8}-0000-0000-0000-{'0' * 12}.parquet").touch()
    ended = plan_in_process(tmp_path, stage, "restore", stage.name, CANONICAL)
    assert ended.returncode != 0
    assert NO_SPARK_HERE in ended.stderr
