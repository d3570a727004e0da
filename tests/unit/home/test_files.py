"""Files of a home: how they are written, read and kept for a while."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

import pytest
from upath import UPath

from sessionizer.control.lease import LOGS_KEPT, acquire, sweep
from sessionizer.errors import DamagedFile, UnwritablePath
from sessionizer.home.control_store import CachedValue, Store, cached_read, record_names
from sessionizer.home.local_files import LOG_VARIABLE, BoundedLog
from sessionizer.home.record_file import create_json, examine_json, have_folder, read_json, write_json
from sessionizer.home.roots import ControlPath
from sessionizer.home.stream_home import StreamHome
from support.places import known


def test_a_short_log_is_left_alone(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "driver.a.log", limit_bytes=10)
    assert not log.trim(), "it is not there yet"
    log.path.write_text("0123456789")
    assert not log.trim()
    assert log.path.read_text() == "0123456789"


def test_only_so_many_parts_are_kept(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "driver.a.log", limit_bytes=3, kept=2)
    for text in ("first", "second", "third"):
        log.path.write_text(text)
        assert log.trim()
        assert log.path.read_text() == ""
    assert [part.read_text() for part in log.parts()] == ["third", "second"]
    assert len(list(tmp_path.iterdir())) == 3


def test_no_room_for_the_copy_does_not_keep_it_from_being_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = BoundedLog(tmp_path / "driver.a.log", limit_bytes=3, kept=1)
    log.path.write_text("too long")

    def full(_: BinaryIO, target: BinaryIO) -> None:
        target.write(b"to")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    assert log.trim()
    assert [path.name for path in tmp_path.iterdir()] == ["driver.a.log"]
    assert log.path.read_text() == ""


@pytest.mark.parametrize(("environment", "path"), [({}, None), ({LOG_VARIABLE: "/x/y.log"}, Path("/x/y.log"))])
def test_the_launcher_names_it(environment: dict[str, str], path: Path | None) -> None:
    log = BoundedLog.from_environment(environment)
    assert (log.path if log else None) == path


def test_a_new_driver_prunes_old_logs_but_not_its_own(home: StreamHome) -> None:
    _old_log(home, "mine", 1)
    for age in range(LOGS_KEPT + 3):
        _old_log(home, f"other{age:02d}", 100 + age)
    (home.logs / "notes.txt").touch()
    acquire(home, "mine")
    left = {path.name for path in home.logs.iterdir()}
    others = {f"driver.other{age:02d}.log{part}" for age in range(3, LOGS_KEPT + 3) for part in ("", ".1")}
    assert left == {"driver.mine.log", "driver.mine.log.1", "notes.txt"} | others
    sweep(home, "mine")
    assert {path.name for path in home.logs.iterdir()} == left


def _old_log(home: StreamHome, uid: str, changed_at: int) -> None:
    for part in ("", ".1"):
        path = home.logs / f"driver.{uid}.log{part}"
        path.touch()
        os.utime(path, (changed_at, changed_at))


def test_no_part_is_for_everybody(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "driver.a.log", limit_bytes=3)
    log.path.write_text("too long")
    assert log.trim()
    assert [stat.S_IMODE(part.stat().st_mode) for part in log.parts() if part.exists()] == [0o640]


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
    damage = known(examine_json(path).damage)
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
