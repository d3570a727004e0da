"""Rows that others change in the tables of a stream, by logs as Delta writes them: told once, and only of others."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sessionizer.home.data_files import newest_version
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.spark.sinks.table_check import ChangeWatch
from sessionizer.state.lineages.table_changes import KEPT, NotifiedChanges, changes_of_active, list_changes_after

OURS = "20261121T105501-3fa9c2"
ROWS = pa.table({"a": [1, 2]})


def append(table: Path, *, by: str | None = None, note: str | None = None) -> None:
    transactions = [] if by is None else [Transaction(app_id=by, version=1)]
    noted = {} if note is None else {"userMetadata": note}
    properties = CommitProperties(app_transactions=transactions, custom_metadata=noted)
    write_deltalake(str(table), ROWS, mode="append", commit_properties=properties)


def told(table: Path, version: int = 0) -> list[tuple[int, str]]:
    _, changes = list_changes_after(table, "sessions", version, {OURS})
    return [(change.version, change.operation) for change in changes]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    append(tmp_path / "sessions", by=OURS)
    return tmp_path / "sessions"


def test_batches_commands_and_upkeep_are_ours(table: Path) -> None:
    append(table, by=OURS)
    append(table, note="restore 20261121T105501-3fa9c2")
    append(table, by="operation-20261121T105501-3fa9c2")
    append(table)
    DeltaTable(str(table)).optimize.compact()
    assert told(table) == [(4, "WRITE")]


def test_an_insert_a_delete_and_an_update_are_told(table: Path) -> None:
    append(table, by="their-job")
    DeltaTable(str(table)).delete("a = 1")
    DeltaTable(str(table)).update({"a": "3"}, predicate="a = 2")
    assert told(table) == [(1, "WRITE"), (2, "DELETE"), (3, "UPDATE")]
    assert told(table, version=2) == [(3, "UPDATE")]
    assert newest_version(table) == 3


def test_a_log_that_was_cut_is_read_from_where_it_begins(table: Path) -> None:
    for _ in range(3):
        append(table)
    (table / "_delta_log" / f"{1:020d}.json").unlink()
    assert list_changes_after(table, "sessions", 0, {OURS}) == (0, [])
    version, changes = list_changes_after(table, "sessions", 0, {OURS}, cut=True)
    assert (version, [change.version for change in changes]) == (3, [2, 3])


def test_each_change_is_told_once_over_drivers_and_the_newest_are_kept(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    lineage, table, said = start_lineage(home), tmp_path / "sessions", list[str]()
    append(table)

    def look() -> int:
        before = len(said)
        ChangeWatch(home, lineage, {"sessions": str(table)}, said.append).look()
        return len(said) - before

    assert look() == 0  # the past is not told
    append(table, by=lineage)
    append(table)
    assert (look(), look()) == (1, 0)
    for _ in range(KEPT):
        append(table)
    assert (look(), look()) == (KEPT, 0)
    assert [change.version for change in changes_of_active(home)] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("content", ["", "{", '{"looked": 3}', '{"changes": [{"version": "x"}]}'])
def test_a_damaged_record_ends_no_stream(tmp_path: Path, content: str) -> None:
    (tmp_path / "table_changes.json").write_text(content)
    record = NotifiedChanges(tmp_path / "table_changes.json")
    record.note({"/lake/sessions": 3}, [])
    assert json.loads((tmp_path / "table_changes.json").read_text())["looked"] == {"/lake/sessions": 3}
