"""Room on a disk: missing room is not a missing permission, and last words have theirs kept back."""

import errno
from pathlib import Path

import pytest

from sessionizer.control.maintenance import record_failure
from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.errors import DiskFull, TransientError, UnwritablePath
from sessionizer.home import local_files as disk_space
from sessionizer.home.local_files import RESERVE, Reserve, require_room, unwritable
from sessionizer.home.stream_home import StreamHome


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_transient(number: int) -> None:
    error = unwritable(Path("/home/x"), "a control file", OSError(number, "no room"))
    assert isinstance(error, DiskFull)
    assert isinstance(error, TransientError)


def test_any_other_refusal_is_terminal() -> None:
    assert isinstance(unwritable(Path("/x"), "a file", OSError(errno.EROFS, "Read-only")), UnwritablePath)


def test_a_disk_with_room_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_room([tmp_path, tmp_path / "absent"])
    monkeypatch.setattr(disk_space, "LEAST_ROOM", 2**63)
    with pytest.raises(DiskFull, match="bytes are left"):
        require_room([tmp_path])


def test_a_file_system_without_blocks_of_its_own_is_never_full() -> None:
    require_room([Path("/proc")])


def test_the_reserve_takes_room_until_it_is_given_up(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve")
    reserve.take()
    assert reserve.file.stat().st_blocks * 512 >= RESERVE
    reserve.give_up()
    reserve.give_up()
    assert not reserve.file.exists()
    Reserve(tmp_path / "absent" / "reserve").take()


def test_the_exit_record_names_the_cause(home: StreamHome) -> None:
    record_failure(home, "a", DiskFull(home.root, "the next batch", "12 bytes are left"))
    ended = EXIT_FILE.of(home, "a").read()
    assert ended
    assert (ended.error_type, ended.terminal) == ("disk_full", False)
