"""A cached value is what new reads of the records would make. It is made once while none of them changes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from upath import UPath

from sessionizer.home.control_store import CachedValue, Store, cached_read, record_names
from sessionizer.home.record_file import examine_json, have_folder, write_json
from sessionizer.home.roots import ControlPath


class Maker:
    """A cached value of some records: their contents, names and existence. ``made`` counts how often it was made."""

    def __init__(self, folder: ControlPath) -> None:
        self.folder, self.made = folder, 0
        self._kept: CachedValue[tuple[object, ...]] = CachedValue()

    def look(self) -> tuple[object, ...]:
        there, absent = examine_json(self.folder / "there.json"), examine_json(self.folder / "absent.json")
        return (
            there.value,
            there.damage,
            absent.damage,
            absent.value,
            record_names(self.folder / "operations"),
            Store(self.folder / "batches").exists(),
        )

    def make(self) -> tuple[object, ...]:
        self.made += 1
        return self.look()

    def get(self, *of: object) -> tuple[object, ...]:
        return self._kept.get(self.make, *of)


@pytest.fixture(params=["path", "store"])
def maker(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    folder = tmp_path if request.param == "path" else UPath(f"memory://{tmp_path}")
    have_folder(folder / "operations", "a test")
    write_json(folder / "there.json", {"a": 1})
    write_json(folder / "operations" / "one.json", {})
    return Maker(folder)


CHANGES: Final[dict[str, Callable[[ControlPath], object]]] = {
    "replaced": lambda folder: write_json(folder / "there.json", {"a": 2}),
    "removed": lambda folder: Store(folder / "there.json").remove(),
    "damaged": lambda folder: Store(folder / "there.json").replace(b"{", durable=False),
    "created": lambda folder: write_json(folder / "absent.json", {}),
    "named": lambda folder: write_json(folder / "operations" / "two.json", {}),
    "there": lambda folder: write_json(folder / "batches", {}),
}


def test_a_value_is_made_once_while_no_record_changes(maker: Maker) -> None:
    assert maker.get() == maker.get() == maker.look()
    assert maker.made == 1
    write_json(maker.folder / "another.json", {})
    write_json(maker.folder / "there.json", {"a": 1})
    assert maker.get() == maker.look()
    assert maker.made == 1, "no record that it was made from has changed"


@pytest.mark.parametrize("change", CHANGES)
def test_a_value_is_made_anew_after_a_change(change: str, maker: Maker) -> None:
    before = maker.get()
    CHANGES[change](maker.folder)
    assert maker.get() == maker.look() != before
    assert maker.made == 2


def test_a_change_that_the_time_and_size_of_the_file_do_not_tell_is_seen(tmp_path: Path) -> None:
    maker, file = Maker(tmp_path), tmp_path / "there.json"
    file.write_text('{"a": 1}')
    maker.get()
    was = file.stat()
    file.write_text('{"a": 2}')
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert maker.get() == maker.look()
    assert maker.made == 2


def test_a_value_of_something_else_is_made_anew(maker: Maker) -> None:
    for of, made in (("a", 1), ("a", 1), ("b", 2), ("a", 3)):
        maker.get(of)
        assert maker.made == made


def test_a_record_that_cannot_be_reached_is_asked_for_each_time(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: object) -> bytes:
        raise PermissionError(13, "no")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "_read", away)
        assert maker.get() == maker.get() == maker.look()
        assert maker.made == 2
    assert maker.get() == maker.look()
    assert maker.made == 3


def test_an_error_is_not_kept(maker: Maker) -> None:
    kept: CachedValue[object] = CachedValue()

    def fail() -> object:
        maker.look()
        raise LookupError("gone")

    for _ in range(2):
        with pytest.raises(LookupError, match="gone"):
            kept.get(fail)
    assert kept.get(lambda: 1) == 1


def test_an_operation_elsewhere_is_looked_at_too(tmp_path: Path) -> None:
    answers, kept = iter((1, 1, 2, 2)), CachedValue[int]()
    found = [kept.get(lambda: cached_read(tmp_path, "columns", lambda: next(answers))) for _ in range(3)]
    assert found == [1, 1, 2]
