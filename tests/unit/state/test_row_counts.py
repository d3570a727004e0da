"""Rows that leave a table and come back, counted from its log and files as a model counts them."""

import json
from collections import Counter
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.errors import DataAway, RowsGone
from sessionizer.state.lineages import table_snapshot
from sessionizer.state.lineages.origin import BatchRange, Segment
from sessionizer.state.lineages.table_snapshot import (
    SparkNeeded,
    VersionGone,
    left_to_spark,
    read_snapshot,
    read_table_id,
)
from sessionizer.state.restores.row_changes import RowChanges, RowsOfTable, StreamedTable, count_changes_in_files
from support.places import known

A, B, C = "20261120T105501-111111", "20261121T105501-222222", "20261122T105501-333333"
DAY = date(2026, 11, 23)
Row = tuple[str, int, int]
"""Lineage, batch and day of November."""
BACK = RowChanges((Segment(A, 3), Segment(B, 7)), (C,))
ONLY_A = RowChanges((Segment(A, 2), Segment(B), Segment(C)))
FORWARD = RowChanges((Segment(A, 3), Segment(B, 9)), (C,), (BatchRange(B, 7, 9),))


def write(table: Path, rows: list[Row]) -> None:
    """A commit with one file, by the newest of its batches."""
    lineages, batches, days = zip(*rows, strict=True)
    content = pa.table(
        {
            "lineage": pa.array(lineages, pa.string()),
            "batch_id": pa.array(batches, pa.int64()),
            "date": pa.array([DAY.replace(day=day) for day in days], pa.date32()),
        }
    )
    taken = [Transaction(app_id=lineages[0], version=batches[0])]
    write_deltalake(str(table), content, mode="append", commit_properties=CommitProperties(app_transactions=taken))


def counted(table: Path, changes: RowChanges, version: int | None = None) -> RowsOfTable:
    (found,) = count_changes_in_files("clicks", [StreamedTable("sessions", str(table), version)], changes)
    return found


def delete(table: Path, condition: str) -> None:
    DeltaTable(str(table)).delete(condition)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a file for each of six batches."""
    for row in ((A, 3, 20), (B, 6, 21), (B, 7, 21), (B, 8, 22), (B, 9, 22), (C, 0, 23)):
        write(tmp_path / "sessions", [row, row])
    return tmp_path / "sessions"


def test_rows_off_the_path_are_counted_by_day(table: Path) -> None:
    assert counted(table, BACK).by_day == {"2026-11-22": 4, "2026-11-23": 2}
    assert counted(table, BACK).back == {}


def test_statistics_that_tell_all_are_believed_and_no_file_is_opened(table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.write_bytes(b"")
    assert counted(table, BACK).by_day == {"2026-11-22": 4, "2026-11-23": 2}


def test_deleted_rows_come_back_unless_their_batch_is_there(table: Path) -> None:
    version = DeltaTable(str(table)).version()
    delete(table, f"lineage = '{B}' and batch_id = 8")
    assert counted(table, FORWARD, version).back == {"2026-11-22": 2}
    delete(table, f"lineage = '{B}' and batch_id = 9")
    assert counted(table, FORWARD, version).back == {"2026-11-22": 4}
    assert counted(table, FORWARD).back == {}, "the table was not there then"


def test_files_of_many_batches_are_read(table: Path) -> None:
    version = DeltaTable(str(table)).version()
    DeltaTable(str(table)).optimize.compact()
    assert counted(table, BACK) == RowsOfTable("sessions", str(table), {"2026-11-22": 4, "2026-11-23": 2})
    delete(table, f"lineage = '{B}' and batch_id >= 8")
    assert counted(table, FORWARD, version).back == {"2026-11-22": 4}


def test_a_log_with_a_gap_is_left_to_spark(table: Path) -> None:
    """Spark names the damage, as it did before files were read."""
    (table / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(SparkNeeded, match="version 5"):
        counted(table, BACK)
    write(table.parent / "other", [(A, 3, 20)])
    with pytest.raises(RowsGone):
        counted(table.parent / "other", FORWARD, 7)


def test_a_checkpoint_says_the_same_as_its_commits(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    for commit in (table / "_delta_log").glob("*.json"):
        if commit.name < f"{DeltaTable(str(table)).version():020d}":
            commit.unlink()
    assert counted(table, BACK).by_day == {"2026-11-22": 4, "2026-11-23": 2}
    snapshot, made = read_snapshot(table), read_table_id(table)
    assert known(snapshot).transactions == {A: 3, B: 9, C: 0}
    assert made == str(DeltaTable(str(table)).metadata().id)
    with pytest.raises(VersionGone, match="version 2"):
        read_snapshot(table, 2)
    with pytest.raises(RowsGone, match="version 2"):
        counted(table, FORWARD, 2)


def test_rows_of_a_lineage_that_no_record_has_leave(table: Path) -> None:
    write(table, [("20261123T105501-444444", 0, 24)])
    assert counted(table, BACK).by_day == {"2026-11-22": 4, "2026-11-23": 2, "2026-11-24": 1}


def test_a_vacuumed_file_is_named(table: Path) -> None:
    version = DeltaTable(str(table)).version()
    delete(table, f"lineage = '{B}' and batch_id = 9")
    (gone,) = [
        name for name in DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False) if name
    ]
    with pytest.raises(RowsGone, match=gone):
        counted(table, FORWARD, version)


def test_a_file_that_is_gone_now_is_left_to_spark(table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.unlink()
    with pytest.raises(SparkNeeded):
        counted(table, BACK)


def test_a_table_that_is_gone_is_refused(tmp_path: Path) -> None:
    away = StreamedTable("sessions", str(tmp_path / "sessions"), 3)
    assert count_changes_in_files("clicks", [away], BACK) == [RowsOfTable("sessions", away.location, {})]
    with pytest.raises(RowsGone):
        count_changes_in_files("clicks", [away], FORWARD)
    with pytest.raises(DataAway):
        count_changes_in_files("clicks", [StreamedTable("sessions", away.location, has_rows=True)], BACK)
    assert read_snapshot(tmp_path / "sessions") is None
    assert read_table_id(tmp_path / "sessions") is None


def change_actions(table: Path, kind: str, **changed: object) -> None:
    """Rewrite the first commit as if a writer of ours had more of the protocol."""
    commit = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if kind in action:
            action[kind].update(changed)
    commit.write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("metaData", {"partitionColumns": ["date"]}),
        ("metaData", {"configuration": {"delta.columnMapping.mode": "name"}}),
        ("add", {"deletionVector": {"storageType": "u"}}),
        ("add", {"stats": "{"}),
    ],
)
def test_what_only_spark_reads_is_left_to_it(table: Path, kind: str, changed: dict[str, object]) -> None:
    change_actions(table, kind, **changed)
    with pytest.raises(SparkNeeded):
        counted(table, BACK)


def test_a_checkpoint_with_sidecars_is_left_to_spark(table: Path) -> None:
    (table / "_delta_log" / f"{5:020d}.checkpoint.{'a' * 8}-0000-0000-0000-{'0' * 12}.parquet").touch()
    with pytest.raises(SparkNeeded, match="sidecars"):
        read_snapshot(table)


@pytest.mark.parametrize("stats", ["", '{"numRecords": 2}', json.dumps({"minValues": {"lineage": B}})])
def test_without_statistics_the_columns_are_read(table: Path, stats: str) -> None:
    change_actions(table, "add", stats=stats)
    assert counted(table, ONLY_A).by_day == {"2026-11-20": 2}


def test_rows_without_a_lineage_are_left_to_spark(tmp_path: Path) -> None:
    empty = pa.table({"lineage": pa.nulls(1, pa.string()), "batch_id": [1], "date": [DAY]})
    write_deltalake(str(tmp_path / "sessions"), empty)
    with pytest.raises(SparkNeeded):
        counted(tmp_path / "sessions", BACK)
    write_deltalake(str(tmp_path / "others"), pa.table({"lineage": [C]}))
    with pytest.raises(SparkNeeded):
        counted(tmp_path / "others", BACK)


def test_a_missing_package_is_no_failure(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(*_: object) -> None:
        raise ModuleNotFoundError("pyarrow")

    monkeypatch.setattr(table_snapshot, "_read_parquet", lack)
    DeltaTable(str(table)).optimize.compact()
    with pytest.raises(SparkNeeded, match="pyarrow"):
        counted(table, BACK)
    with pytest.raises(SparkNeeded), left_to_spark():
        raise DataAway("clicks", "the table sessions", "/nowhere")


def test_an_empty_file_has_no_rows(table: Path) -> None:
    first = next(table.glob("*.parquet"))
    change_actions(table, "add", stats="", path=first.name)
    pq.write_table(pq.read_table(first).slice(0, 0), first)
    assert counted(table, ONLY_A).by_day == {}


LINEAGES = st.sampled_from([A, B, C])
ROWS = st.lists(st.tuples(LINEAGES, st.integers(0, 4), st.integers(20, 22)), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(ROWS, min_size=1, max_size=5),
    st.lists(ROWS, max_size=1),
    st.integers(-1, 4),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)
def test_any_table_is_counted_as_a_model_counts(  # noqa: PLR0917  what is drawn
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[list[Row]],
    more: list[list[Row]],
    until: int,
    newest: int,
    is_compacted: bool,
    has_checkpoint: bool,
) -> None:
    table = tmp_path_factory.mktemp("model") / "sessions"
    for rows in commits:
        write(table, rows)
    version = DeltaTable(str(table)).version()
    delete(table, f"batch_id > {newest}")
    for rows in more:
        write(table, rows)
    if is_compacted:
        DeltaTable(str(table)).optimize.compact()
    if has_checkpoint:
        DeltaTable(str(table)).create_checkpoint()
    then = [row for rows in commits for row in rows]
    now = [row for row in then if row[1] <= newest] + [row for rows in more for row in rows]
    there = {row[:2] for row in now}
    leaving = [row for row in now if row[0] == C or (row[0] == A and row[1] > until)]
    back = [row for row in then if row[0] == B and until < row[1] <= 3 and row[:2] not in there]
    changes = RowChanges((Segment(A, until), Segment(B)), (C,), (BatchRange(B, until, 3),))
    found = counted(table, changes, version)
    assert (found.by_day, found.back) == (by_day(leaving), by_day(back))


def by_day(rows: list[Row]) -> dict[str, int]:
    return dict(Counter(f"2026-11-{day}" for _, _, day in rows))
