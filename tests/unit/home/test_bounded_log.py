"""A log that others append to is kept short, and what they print afterwards is still in it."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from sessionizer.control.lease import LOGS_KEPT, acquire, sweep
from sessionizer.home.local_files import LOG_VARIABLE, BoundedLog
from sessionizer.home.stream_home import StreamHome


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


def test_a_new_driver_prunes_old_logs_but_not_its_own(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
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
