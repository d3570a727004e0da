"""The batches that a table has taken, and its version after one of them, by logs as Delta writes them."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from upath import UPath

from sessionizer.home.data_files import newest_version
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.spark.sinks.examine import ChangeWatch
from sessionizer.state.lineages.table_changes import (
    KEPT,
    NotifiedChanges,
    TableLog,
    changes_of_active,
    list_changes_after,
    read_table_log,
    version_with_batch,
)

OURS, OTHERS = "20261121T105501-3fa9c2", "20261120T105501-111111"
ROWS = pa.table({"a": [1, 2]})


def write(table: Path, *batches: tuple[str, int] | None) -> None:
    """A commit for each: of a lineage's batch, or of maintenance."""
    for batch in batches:
        append(table, by=batch and batch[0], batch=batch[1] if batch else 0)


def append(table: Path, *, by: str | None = None, batch: int = 1, note: str | None = None) -> None:
    transactions = [] if by is None else [Transaction(app_id=by, version=batch)]
    noted = {} if note is None else {"userMetadata": note}
    properties = CommitProperties(app_transactions=transactions, custom_metadata=noted)
    write_deltalake(str(table), ROWS, mode="append", commit_properties=properties)


def checksum(table: Path, version: int, content: str) -> None:
    (table / "_delta_log" / f"{version:020d}.crc").write_text(content)


def listed(**batches: int) -> str:
    return json.dumps({"setTransactions": [{"appId": name, "version": batch} for name, batch in batches.items()]})


def test_no_table_has_no_log(tmp_path: Path) -> None:
    assert read_table_log(tmp_path / "nowhere") is None
    (tmp_path / "made" / "_delta_log").mkdir(parents=True)
    assert read_table_log(tmp_path / "made") is None


def test_without_checksums_the_commits_are_read_back_to_the_first(tmp_path: Path) -> None:
    write(tmp_path, (OTHERS, 40), None, (OURS, 2), (OURS, 5), None)
    assert read_table_log(tmp_path) == TableLog(4, {OTHERS: 40, OURS: 5})


def test_a_checksum_is_believed_and_what_came_after_it_is_added(tmp_path: Path) -> None:
    write(tmp_path, (OURS, 2), (OURS, 5), (OURS, 6))
    checksum(tmp_path, 1, listed(other=7))
    assert read_table_log(tmp_path) == TableLog(2, {OURS: 6, "other": 7})


@pytest.mark.parametrize("content", ["{}", '{"setTransactions": [{"appId"', '{"setTransactions": 3}', "[]"])
def test_a_checksum_that_tells_nothing_is_passed_over(tmp_path: Path, content: str) -> None:
    write(tmp_path, (OURS, 2), (OURS, 5))
    checksum(tmp_path, 1, content)
    assert read_table_log(tmp_path) == TableLog(1, {OURS: 5})


def test_a_log_that_was_cut_does_not_tell(tmp_path: Path) -> None:
    write(tmp_path, (OURS, 2), None, None)
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    assert read_table_log(tmp_path) == TableLog(2, None)


def test_the_checksum_of_a_commit_that_is_gone_is_not_asked(tmp_path: Path) -> None:
    write(tmp_path, (OURS, 2), (OURS, 5))
    checksum(tmp_path, 1, listed(**{OURS: 5}))
    (tmp_path / "_delta_log" / f"{1:020d}.json").unlink()
    assert read_table_log(tmp_path) == TableLog(0, {OURS: 2})


def test_a_table_at_a_uri_is_read_alike(tmp_path: Path) -> None:
    write(tmp_path, (OTHERS, 40), (OURS, 2))
    checksum(tmp_path, 0, listed(other=7))
    there = UPath(f"memory://{tmp_path}")
    for file in (tmp_path / "_delta_log").iterdir():
        (there / "_delta_log" / file.name).write_bytes(file.read_bytes())
    assert read_table_log(there) == TableLog(1, {OURS: 2, "other": 7})
    assert read_table_log(there / "nowhere") is None


@settings(max_examples=200, deadline=None)
@given(
    commits=st.lists(st.one_of(st.none(), st.tuples(st.sampled_from("ab"), st.integers(0, 9))), min_size=1, max_size=9),
    with_checksum=st.sets(st.integers(0, 9)),
)
def test_checksums_never_change_the_answer(
    tmp_path_factory: pytest.TempPathFactory, commits: list[tuple[str, int] | None], with_checksum: set[int]
) -> None:
    table, newest = tmp_path_factory.mktemp("table"), dict[str, int]()
    (table / "_delta_log").mkdir()
    for version, batch in enumerate(commits):
        actions = ['{"commitInfo": {}}']
        if batch is not None:
            newest[batch[0]] = max(batch[1], newest.get(batch[0], -1))
            actions.append(json.dumps({"txn": {"appId": batch[0], "version": batch[1]}}))
        (table / "_delta_log" / f"{version:020d}.json").write_text("\n".join(actions))
        if version in with_checksum:
            checksum(table, version, listed(**newest))
    assert read_table_log(table) == TableLog(len(commits) - 1, newest)


@pytest.mark.parametrize(("batch", "version"), [(9, 6), (5, 6), (4, 4), (3, 4), (2, 4), (1, 1), (0, 1)])
def test_the_version_after_a_batch_is_the_last_without_later_batches(tmp_path: Path, batch: int, version: int) -> None:
    write(tmp_path, None, (OTHERS, 40), (OURS, 2), None, None, (OURS, 5), None)
    assert version_with_batch(tmp_path, OURS, batch) == version
    assert DeltaTable(str(tmp_path)).version() == 6


def test_a_table_that_is_not_there_has_no_version(tmp_path: Path) -> None:
    assert version_with_batch(tmp_path / "nothing", OURS, 3) is None


def test_a_version_is_looked_for_no_further_back_than_it_must(tmp_path: Path) -> None:
    """A table may have thousands of commits, of which the stream wrote the last few after the batch."""
    write(tmp_path, (OURS, 1), (OURS, 2), (OURS, 3))
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text('"txn" that nobody can read')
    assert version_with_batch(tmp_path, OURS, 2) == 1


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


def test_each_change_is_told_once_over_drivers_and_the_newest_are_kept(tmp_path: Path, home: StreamHome) -> None:
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
