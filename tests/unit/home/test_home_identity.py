"""The id of a platform home: made once, by whoever comes first, and never guessed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessionizer.errors import DamagedFile
from sessionizer.home.home_identity import home_id, owner_name


def test_all_who_come_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: home_id(tmp_path), range(16)))
    assert found == {home_id(tmp_path)}
    assert owner_name("clicks", tmp_path) == f"clicks@{found.pop()}"


def test_it_goes_with_the_home_and_is_no_other_homes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    before = home_id(tmp_path / "a")
    assert before != home_id(tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "c")
    assert home_id(tmp_path / "c") == before


def test_a_damaged_one_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "home.json").write_text("{")
    with pytest.raises(DamagedFile):
        home_id(tmp_path)
