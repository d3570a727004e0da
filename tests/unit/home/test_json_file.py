"""JSON files that are created once, damaged, absent or unreadable."""

from pathlib import Path

import pytest

from sessionizer.errors import DamagedFile, UnwritablePath
from sessionizer.home.record_file import create_json, examine_json, read_json, write_json


def test_only_the_first_creates(tmp_path: Path) -> None:
    path = tmp_path / "00000001.json"
    assert create_json(path, {"who": "first"})
    assert not create_json(path, {"who": "second"})
    assert read_json(path) == {"who": "first"}
    assert [path] == list(tmp_path.iterdir())


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "desired.json"
    with pytest.raises(UnwritablePath) as caught:
        write_json(path, {})
    assert caught.value.path == path


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"\0" * 64, b"[" * 100_000])
def test_a_damaged_file_reads_as_none_and_can_be_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lease.json"
    path.write_bytes(content)
    assert read_json(path) is None
    damage = examine_json(path).damage
    assert damage is not None
    assert str(path) in damage


def test_an_absent_file_is_not_a_damaged_one(tmp_path: Path) -> None:
    assert examine_json(tmp_path / "none.json").damage is None
    (tmp_path / "file").touch()
    assert examine_json(tmp_path / "file" / "none.json").damage is None


def test_an_unreadable_file_is_a_damaged_one(tmp_path: Path) -> None:
    assert examine_json(tmp_path).damage == f"{tmp_path} is damaged: it is a folder, no regular file"


def test_a_link_to_nothing_is_a_damaged_file(tmp_path: Path) -> None:
    """It cannot be created, so it must not pass for absence."""
    (tmp_path / "a.json").symlink_to(tmp_path / "gone")
    assert isinstance(examine_json(tmp_path / "a.json").error, DamagedFile)
