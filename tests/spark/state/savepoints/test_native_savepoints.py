"""A native savepoint is the files of one batch: elsewhere the query goes on from there as if it had never moved."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from upath import UPath

from sessionizer.checkpoint.files import copy_batch, files_of, read_seen_files
from sessionizer.checkpoint.log_entries import list_committed_batches, next_watermark
from sessionizer.checkpoint.state_files import move_schema
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.plain_values import format_value, plain_values
from sessionizer.core.wire.alignment import unfit
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import files_below, relative_name
from sessionizer.home.roots import DataPath, add_scheme, folder_at, uri_of
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS, SavepointHome
from sessionizer.inspection.checkpoint_read import read_checkpoint
from sessionizer.lineage.active import start_lineage
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.state.open_events import KeptState, open_event_schema, read_open_events, reading_state
from sessionizer.spark.state.savepoints.saved_state import make_savepoint, recount, savepoint_table
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import (
    RemovalMark,
    examine_savepoint,
    keep_from_removal,
    list_savepoints,
    remove,
    savepoint_of,
    write_data_record,
)
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, SavepointState
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, install, make_native_savepoint
from sessionizer.state.savepoints.verification import Damage, digest_files, require_undamaged
from support.checkpoints.fabricated_checkpoints import fabricate
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import as_landed, batches_of, landed, table_rows
from support.places import opened
from support.processes.in_process import ReadClicks, catch_up, drain, read_clicks
from support.streams.changing_stream import as_sql
from support.streams.payloads import CATALOGUE
from support.streams.stage import Stage, clicks_spec
from support.verbs.restored_stream import save

FILES = 12
"""As many batches: Spark takes snapshots of the state and compacts its list of files on the way."""
DELTAS_UNTIL_SNAPSHOT = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
SAVED = (1, 10)
"""Before and after that."""


@pytest.fixture(scope="module")
def stream(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ReadClicks:
    with temporary_settings(spark, {DELTAS_UNTIL_SNAPSHOT: "4"}):
        return read_clicks(spark, tmp_path_factory.mktemp("stage"), FILES, rate=6)


def saved(stage: Stage, batch_id: int) -> tuple[SavepointHome, Manifest]:
    home = stage.stream_home
    asked = SavepointRequest(home.savepoints, "tests", f"after-{batch_id}")
    made = make_native_savepoint(home, read_committed_batch(home, batch_id), asked, lambda _: None)
    return SavepointHome.of(home.savepoints, made.id), made


def moved(stage: Stage, root: Path, savepoint: tuple[SavepointHome, Manifest]) -> Stage:
    """Another stream, whose tables are empty, that goes on from the savepoint over the same files."""
    spec = clicks_spec(files_per_batch=FILES)
    spec["source"]["path"] = str(stage.feed)
    other = Stage.set_up(root, spec)
    other.stream_home.prepare()
    lineage = start_lineage(other.stream_home)
    install(*savepoint, other.stream_home.checkpoint(lineage))
    return other


@pytest.mark.parametrize("batch_id", [pytest.param(SAVED[0], marks=pytest.mark.long), SAVED[1]])
def test_a_copy_goes_on_as_the_stream_would_have(
    spark: SparkSession, stream: ReadClicks, tmp_path: Path, batch_id: int
) -> None:
    stage, files = stream
    savepoint = saved(stage, batch_id)
    assert savepoint[1].kind is SavepointKind.NATIVE
    other = moved(stage, tmp_path, savepoint)
    assert list_committed_batches(other.checkpoint) == {batch_id - 1, batch_id}
    assert len(read_seen_files(other.checkpoint, batch_id)) == batch_id + 1
    assert next_watermark(other.checkpoint, batch_id) == savepoint[1].watermark_ms
    drain(spark, other)
    before = CheckpointLog(stage.checkpoint).committed()[: batch_id + 1]
    after = [batch for batch in CheckpointLog(other.checkpoint).begun()[1:] if batch.batch_id > batch_id]
    expected = as_landed(sessionize(batches_of([*before, *after], files), rules_of(stage.spec())), [])
    first = as_landed(sessionize(batches_of(before, files), rules_of(stage.spec())), [])
    assert landed(other).sessions
    assert landed(other).late == expected.late - first.late
    until = {row["session_id"] for row in table_rows(stage.table("sessions")) if row["batch_id"] <= batch_id}
    assert landed(other).sessions == +type(expected.sessions)(
        {row: count for row, count in expected.sessions.items() if row[0] not in until}
    )


def test_it_holds_the_one_batch_and_is_as_it_was_written(stream: ReadClicks, tmp_path: Path) -> None:
    """Also after it was installed elsewhere."""
    home, made = saved(stream[0], SAVED[-1])
    names = {relative_name(file, home.part("checkpoint")) for file in files_below(home.part("checkpoint"))}
    assert {name for name in names if name.startswith(("offsets", "commits"))} == {
        f"{log}/{batch}" for log in ("offsets", "commits") for batch in (SAVED[-1] - 1, SAVED[-1])
    }
    versions = {int(name.rpartition("/")[2].split("_")[0]) for name in names if name.endswith((".zip", ".changelog"))}
    assert max(versions) == SAVED[-1] + 1
    assert min(versions) > 1, "what came before the snapshot is not needed"
    require_undamaged(home, made)
    install(home, made, tmp_path / "checkpoint")
    require_undamaged(home, made)


def test_spark_names_the_schema_of_a_state_where_we_change_it(stream: ReadClicks, tmp_path: Path) -> None:
    """The one private line: when Spark writes it in another way, this says so."""
    home, made = saved(stream[0], 1)
    original = stream[0].checkpoint / "state" / "0" / "_metadata" / "v2" / "0"
    version, told = opened(original).read_text().splitlines()
    assert version == "v2"
    (store,) = json.loads(told)["stateStoreInfo"]
    assert all(
        path.startswith(f"{add_scheme(stream[0].checkpoint)}/state/0/_stateSchema/")
        for path in store["stateSchemaFilePaths"]
    )
    install(home, made, tmp_path / "new")
    (file,) = (tmp_path / "new" / "state" / "0" / "_metadata" / "v2").iterdir()
    assert file.read_text() == opened(original).read_text().replace(str(stream[0].checkpoint), str(tmp_path / "new"))
    file.write_text(f"v3\n{told}")
    with pytest.raises(ValueError, match="knows nothing"):
        move_schema(tmp_path / "new", "file:/elsewhere")


def test_tables_are_not_installed(stream: ReadClicks, tmp_path: Path) -> None:
    fabricate(tmp_path, "canonical")
    found = savepoint_of(tmp_path, "canonical", epoch_ms())
    assert found.manifest
    assert found.state is SavepointState.COMPLETE
    with pytest.raises(UnusableSavepoint, match="seeded, not copied"):
        install(found.home, found.manifest, tmp_path / "checkpoint")


@pytest.fixture
def folder(hdfs_folder: UPath) -> DataPath:
    return folder_at(uri_of(hdfs_folder)) / "clicks"


@pytest.mark.long
def test_they_are_made_used_and_removed_there(spark: SparkSession, folder: DataPath, tmp_path: Path) -> None:
    stage, _ = read_clicks(spark, tmp_path, 2, rate=6)
    home, committed = stage.stream_home, read_committed_batch(stage.stream_home)
    assert uri_of(folder).startswith("hdfs://")
    made = make_savepoint(spark, home, committed, SavepointRequest(folder, "tests", "a"), lambda _: None)
    native = make_native_savepoint(home, committed, SavepointRequest(folder, "tests", "b"), lambda _: None)
    canonical, copied = list_savepoints(folder, epoch_ms())
    assert [canonical.manifest, copied.manifest] == [made, native]
    assert savepoint_table(spark, canonical.home, OPEN_EVENTS).count() == made.counts.events if made.counts else 0
    held = made.counts, made.earliest_due_ms
    assert recount(spark, canonical.home, made) == {OPEN_EVENTS: held, GROUP_LOGS: held}
    require_undamaged(canonical.home, made)
    require_undamaged(copied.home, native)
    install(copied.home, native, tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint" / "commits" / str(native.batch_id)).exists()

    with keep_from_removal(canonical.home, "tests"):
        assert remove(canonical.home, home) == "a process reads it"
    hurt = next(file for file in files_below(canonical.home.part(OPEN_EVENTS)) if file.name.endswith(".parquet"))
    content = opened(hurt).read_bytes()
    opened(hurt).unlink()
    opened(hurt).write_bytes(content[:-1])
    found = digest_files(canonical.home)
    assert [each.damage for each in found.findings(made.files)] == [Damage.CUT]
    opened(canonical.home.manifest).unlink()
    assert examine_savepoint(canonical.home, epoch_ms()).state is SavepointState.MAKING
    write_data_record(copied.home.condemned, RemovalMark(epoch_ms()))  # by one that was killed
    assert remove(copied.home, home) is None
    assert [each.id for each in list_savepoints(folder, epoch_ms())] == ["a"]


# the first and the last that readers have a value for: others are quarantined
EXTREMES = {
    "last_instant": "timestamp_micros(253402300799999999)",
    "first_instant": "timestamp_micros(-62135596800000000)",
    "last_day": "date_from_unix_date(2932896)",
    "first_day": "date_from_unix_date(-719162)",
}
EVENTS_OF_TYPES_IN_A_SAVEPOINT = 4


def spec(step: int) -> dict[str, Any]:
    """The payload with the first or the last type of each of its columns."""
    typed = {column.name: as_sql(column.name, column.types[step], "n") for column in CATALOGUE}
    return {
        "source": {
            "format": "files", "path": "feed", "encoding": "json",
            "columns": "user_id string, ts bigint, event_id string, n int",
        },
        "mapping": {
            "key": "user_id", "event_time": "timestamp_millis(ts)", "event_id": "event_id",
            "payload": typed | EXTREMES,
        },
        "rules": {"watermark_delay": "10 seconds", "gap_timeout": "30 seconds", "emit_every": "5 seconds"},
        "key_groups": 2,
        "sink": {"path": f"tables of step {step}"},  # a table does not widen its columns by itself
    }  # fmt: skip


def send(stage: Stage, name: str) -> None:
    """Events that each have other values, for several keys at one time."""
    rows = [
        {"user_id": f"u{number % 2}", "ts": 1_750_000_000_000, "event_id": f"{name}{number}", "n": number}
        for number in range(EVENTS_OF_TYPES_IN_A_SAVEPOINT)
    ]
    (stage.feed / f"{name}.json").write_text("\n".join(map(json.dumps, rows)) + "\n")


@pytest.mark.long
def test_the_tables_have_what_the_state_has(spark: SparkSession, tmp_path: Path) -> None:
    """The payload of the stream took other types on its way."""
    stage, columns = Stage.set_up(tmp_path, spec(0)), [*(column.name for column in CATALOGUE), *EXTREMES]
    for step, name in ((0, "early"), (-1, "late")):
        stage.write_spec(spec(step))
        send(stage, name)
        catch_up(spark, stage)
    stage.record_spec()
    committed = read_committed_batch(stage.stream_home)
    events = open_event_schema(committed.kept)
    with reading_state(spark):
        state = KeptState(stage.checkpoint, committed.batch_id, 2, events)
        expected = as_text(read_open_events(spark, state).toArrow())
    saved = savepoint_table(spark, save(spark, stage, "a")[0], OPEN_EVENTS).toArrow()
    assert as_text(saved) == expected
    assert len(saved) == 2 * EVENTS_OF_TYPES_IN_A_SAVEPOINT
    assert all(saved.column(f"payload_{name}").null_count < len(saved) for name in columns)
    # what comes next in the stream still goes together with it
    fields = [f"payload_{name}" for name in columns]
    assert not any(unfit(events.field(name).type, saved.field(name).type) for name in fields)


def as_text(rows: pa.Table) -> dict[str, list[str]]:
    ordered = rows.sort_by("event_id")
    return {
        name: [format_value(value) for value in plain_values(ordered.column(name))] for name in ordered.column_names
    }


def test_a_batch_is_copied_whose_state_is_older_than_the_kept_commits(spark: SparkSession, tmp_path: Path) -> None:
    """A driver that is killed often makes no snapshot, and Spark keeps its commits for a number of batches only."""
    stage, _ = read_clicks(spark, tmp_path / "stage", 5, rate=6)
    newest = max(list_committed_batches(stage.checkpoint))

    def copied(name: str) -> list[str]:
        target = folder_at(str(tmp_path / name))
        copy_batch(stage.checkpoint, newest, target, events_are_files=True)
        return sorted(relative_name(file, target) for file in files_below(target))

    before = copied("before")
    for file in files_below(stage.checkpoint / "commits"):
        if file.name.isdigit() and int(file.name) < newest - 1:
            opened(file).unlink()
    tries = [file for file in files_below(stage.checkpoint / "state") if file.name.startswith("1_")]
    for file in tries:  # of a driver that was killed before its commit
        (opened(file).parent / "1_zzz.changelog").write_bytes(b"of another try")
    assert sum(name.endswith(".changelog") for name in before) > newest, "no snapshot is of late"
    assert copied("after") == before
    looked_at = read_checkpoint(files_of(stage.checkpoint), deep=False)
    chains = [looked_at.chain(place, newest + 1) for place in looked_at.stores]
    assert tries
    assert sorted(name for chain in chains for name in chain.names) == [
        name for name in before if name.endswith((".changelog", ".zip"))
    ]
