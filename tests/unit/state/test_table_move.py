"""Tables copied to another data root: whole or not there, and what is left stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.errors import DataOwned, InvalidSpec, LeaseLost
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.data_owner import claim_data
from sessionizer.state.restores.table_move import TableMove, move_begun, move_to
from support.places import opened

if TYPE_CHECKING:
    from pathlib import Path

    from support.fixtures.reviewed import Reviewed

FILES = {"_delta_log/00000000000000000000.json": "{}", "date=2026-11-23/part-0.parquet": "rows"}


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    found = StreamHome.of(tmp_path / "home", "clicks")
    found.prepare()
    for table in ("sessions", "quarantine"):
        for name, text in FILES.items():
            file = tmp_path / "home" / "streams" / "clicks" / "tables" / table / name
            file.parent.mkdir(parents=True)
            file.write_text(text)
    return found


@pytest.fixture
def move(home: StreamHome, tmp_path: Path) -> TableMove:
    found = move_to(home, tmp_path / "lake", ("sessions", "quarantine", "late_events"), begun=False)
    assert found is not None
    return found


def files_in(home: StreamHome) -> set[str]:
    return {str(path.relative_to(str(home.tables))) for path in opened(home.tables).glob("**/*") if path.is_file()}


def copy(move: TableMove) -> None:
    move.copy(lambda: None)


def test_tables_that_are_there_are_copied_and_stay(home: StreamHome, move: TableMove, reviewed: Reviewed) -> None:
    before = files_in(home)
    copy(move)
    assert files_in(move.taken) == files_in(home) == before
    assert opened(move.taken.table("sessions") / "date=2026-11-23/part-0.parquet").read_text() == "rows"
    reviewed("\n".join(move.lines()))


def test_where_the_data_is_there_is_nothing_to_move(home: StreamHome, tmp_path: Path) -> None:
    assert move_to(home, None, ("sessions",), begun=False) is None
    assert move_to(home, tmp_path / "home", ("sessions",), begun=False) is None


def lost() -> None:
    raise LeaseLost("clicks", 1, 2)


def test_copies_that_no_try_will_use_are_removed(move: TableMove) -> None:
    copy(move)
    move.remove_copies(lambda: None)
    assert files_in(move.taken) == set()


def test_a_run_that_was_overtaken_removes_no_table_whatever_it_fails_of(move: TableMove) -> None:
    """The stream may write to them by now; Spark says of a lost lease that a query failed."""
    copy(move)
    with pytest.raises(LeaseLost):
        move.remove_copies(lost)
    assert len(files_in(move.taken)) == 4
    written = move.taken.table("sessions") / "_delta_log/00000000000000000001.json"
    opened(written).write_text("{}")
    with pytest.raises(LeaseLost):
        move.copy(lost)
    assert opened(written).exists()


def test_a_copy_that_was_cut_short_is_made_anew_and_one_that_is_whole_is_kept(move: TableMove) -> None:
    copy(move)
    cut, whole = (move.taken.table(table) / "date=2026-11-23/part-0.parquet" for table in ("sessions", "quarantine"))
    opened(cut).write_text("r")
    opened(whole).write_text("ours")
    copy(move)
    assert (opened(cut).read_text(), opened(whole).read_text()) == ("rows", "ours")


def test_a_table_in_the_way_is_refused_unless_the_move_was_begun(
    home: StreamHome, tmp_path: Path, reviewed: Reviewed
) -> None:
    (tmp_path / "lake" / "streams" / "clicks" / "tables" / "sessions").mkdir(parents=True)
    with pytest.raises(InvalidSpec) as raised:
        move_to(home, tmp_path / "lake", ("sessions",), begun=False)
    reviewed(raised.value)
    assert move_to(home, tmp_path / "lake", ("sessions",), begun=True) is not None


def test_the_data_of_another_home_is_let_be(home: StreamHome, tmp_path: Path) -> None:
    other = StreamHome.of(tmp_path / "other", "clicks", tmp_path / "lake")
    other.prepare()
    other.prepare_data()
    claim_data(other)
    with pytest.raises(DataOwned):
        move_to(home, tmp_path / "lake", ("sessions",), begun=False)


def test_a_move_that_was_begun_goes_where_it_was_approved_to_go(home: StreamHome) -> None:
    record = new_operation(home, "restore", "ab", "alice", ("a", 1), options=["--trial", "0", "--move-to", "/the lake"])
    assert move_begun(record) == "/the lake"
    assert move_begun(replace(record, options="")) is None
