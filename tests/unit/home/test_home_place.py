"""A copy of a home is told from the home, wherever that is mounted, and writes nothing outside of itself."""

import shutil
from pathlib import Path

import pytest

from sessionizer.errors import HomeCopied
from sessionizer.home import home_identity
from sessionizer.home.home_identity import (
    HomePlace,
    home_id,
    note_home_here,
    require_home_here,
)
from sessionizer.home.roots import folder_at
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import require_own_home

HERE = HomePlace("/srv/home", "one", 7_000)


@pytest.fixture(params=[True, False], ids=["numbers", "no numbers"])
def numbers(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system of the tests counts as one that keeps the numbers of its folders."""
    kept = frozenset({home_identity._file_system(tmp_path.resolve())} if request.param else ())
    monkeypatch.setattr(home_identity, "_KEEP_NUMBERS", kept)
    return bool(request.param)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (HomePlace("/srv/home", "one", 7_000), True),
        (HomePlace("/mnt/home", "one", 7_000), True),  # renamed, or mounted elsewhere
        (HomePlace("/mnt/home", "two", 7_000), True),  # and from another machine
        (HomePlace("/srv/home", "one", 7_001), True),  # put back from a copy: the tables tell
        (HomePlace("/srv/home", "two", 7_001), False),  # copied to another machine
        (HomePlace("/srv/copy", "one", 7_001), False),
        (HomePlace("/srv/copy", "one"), False),  # numbers are not kept
        (HomePlace("/srv/home", "two"), True),
        (HomePlace("hdfs://n:1/home"), False),
    ],
)
def test_a_home_is_one_by_its_folder_or_its_path(other: HomePlace, *, same: bool) -> None:
    assert HERE.is_same(other) is same
    assert other.is_same(HERE) is same


@pytest.mark.usefixtures("numbers")
def test_a_copy_is_refused_until_a_user_says_that_it_was_moved(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    identity = home_id(home)
    require_home_here(home)
    shutil.copytree(home, copy)
    with pytest.raises(HomeCopied) as refused:
        require_home_here(copy)
    assert refused.value.home == identity
    note_home_here(copy)
    require_home_here(copy)
    require_home_here(home)
    assert home_id(copy) == identity


def test_a_rename_is_no_copy_where_numbers_are_kept(tmp_path: Path, *, numbers: bool) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home_id(home)
    moved = home.rename(tmp_path / "moved")
    if numbers:
        require_home_here(moved)
    else:
        with pytest.raises(HomeCopied):
            require_home_here(moved)


@pytest.mark.parametrize(
    ("data", "folder", "outside"),
    [
        (None, None, False),
        (None, "lake", False),
        (None, "/lake", True),
        (None, "hdfs://namenode:8020/lake", True),
        ("/data", None, True),
        ("/data", "lake", True),
    ],
)
def test_only_a_copy_that_writes_outside_of_itself_is_refused(
    tmp_path: Path, data: str | None, folder: str | None, *, outside: bool
) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    home_id(home)
    shutil.copytree(home, copy)
    root = None if data is None else folder_at(data)
    require_own_home(StreamHome.of(home, "clicks", root), folder)
    if outside:
        with pytest.raises(HomeCopied):
            require_own_home(StreamHome.of(copy, "clicks", root), folder)
    else:
        require_own_home(StreamHome.of(copy, "clicks", root), folder)
