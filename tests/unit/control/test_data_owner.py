"""A stream's data has one owner, a stream of one home: two homes with one data root do not write into each other's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from upath import UPath

from sessionizer.errors import DamagedFile, DataOwned
from sessionizer.home.data_files import list_names
from sessionizer.home.record_file import RecordFile
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import OWNER_FILE, DataOwner, claim_data, require_own_data
from support.fixtures.reviewed import Reviewed
from support.places import opened


@pytest.fixture(params=["a path", "a URI"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DataPath]:
    if request.param == "a path":
        yield tmp_path / "lake"
        return
    folder = UPath(f"memory://{tmp_path}")
    yield folder
    folder.fs.rm(folder.path, recursive=True)


def home_in(folder: Path, lake: DataPath | None) -> StreamHome:
    home = StreamHome.of(folder, "clicks", lake)
    home.prepare()
    home.prepare_data()
    return home


def test_who_comes_first_has_it_and_another_home_is_told_whose_it_is(
    tmp_path: Path, lake: DataPath, reviewed: Reviewed
) -> None:
    first, second = home_in(tmp_path / "laptop", lake), home_in(tmp_path / "cluster", lake)
    claim_data(first)
    claim_data(first)
    with pytest.raises(DataOwned) as raised:
        require_own_data(second)
    reviewed(raised.value)
    claim_data(second)
    require_own_data(first)


def test_of_two_that_claim_at_once_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second finds nothing, and a moment later the mark of the first."""
    first, second = home_in(tmp_path / "laptop", tmp_path / "lake"), home_in(tmp_path / "cluster", tmp_path / "lake")

    def create_after_the_first(file: RecordFile[DataOwner], record: DataOwner) -> bool:
        monkeypatch.undo()
        claim_data(first)
        return file.create(record)

    monkeypatch.setattr(RecordFile, "create", create_after_the_first)
    with pytest.raises(DataOwned):
        claim_data(second)
    require_own_data(first)


def test_a_home_that_was_moved_keeps_its_data(tmp_path: Path, lake: DataPath) -> None:
    claim_data(home_in(tmp_path / "before", lake))
    (tmp_path / "before").rename(tmp_path / "after")
    require_own_data(home_in(tmp_path / "after", lake))


def test_where_the_home_is_the_data_root_nothing_is_marked(tmp_path: Path) -> None:
    home = home_in(tmp_path, None)
    claim_data(home)
    require_own_data(home)
    assert OWNER_FILE not in list_names(home.data)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"owner": 1}'])
def test_a_mark_that_nobody_can_read_is_no_mark_of_ours(tmp_path: Path, lake: DataPath, content: bytes) -> None:
    home = home_in(tmp_path / "laptop", lake)
    opened(home.data / OWNER_FILE).write_bytes(content)
    for asked in (claim_data, require_own_data):
        with pytest.raises(DamagedFile):
            asked(home)
