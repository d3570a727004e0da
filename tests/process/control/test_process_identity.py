"""Whether a process still lives, told from its identity."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.control.lease import fence, write_lease
from sessionizer.control.records import process_records as process_identity
from sessionizer.control.records.process_records import ProcessIdentity, identify, is_alive, new_lease, this_process
from sessionizer.control.status.driver_status import State, read_driver
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.driver.batch_history import task_seconds
from support.processes.ports import eventually


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A child that does nothing."""
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        yield child
        child.kill()


def _identity_of(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    identity = identify(child.pid)
    assert identity is not None
    return identity


def test_this_process_lives() -> None:
    assert this_process() == identify(os.getpid())
    assert is_alive(this_process()) is True


def test_a_killed_process_is_dead_as_zombie_and_after(sleeper: subprocess.Popen[bytes]) -> None:
    identity = _identity_of(sleeper)
    assert is_alive(identity) is True
    os.kill(sleeper.pid, signal.SIGKILL)
    stat = Path(f"/proc/{sleeper.pid}/stat")
    eventually(lambda: b") Z " in stat.read_bytes(), 5)
    assert is_alive(identity) is False
    sleeper.wait()
    assert is_alive(identity) is False
    assert identify(sleeper.pid) is None


def test_a_stopped_process_lives(sleeper: subprocess.Popen[bytes]) -> None:
    identity = _identity_of(sleeper)
    os.kill(sleeper.pid, signal.SIGSTOP)
    assert is_alive(identity) is True


def test_a_reused_pid_is_another_process() -> None:
    mine = this_process()
    assert mine.started is not None
    assert is_alive(replace(mine, started=mine.started - 1)) is False


def test_another_run_of_the_machine_is_over() -> None:
    assert is_alive(replace(this_process(), boot_id="00000000-0000-0000-0000-000000000000")) is False


def test_another_host_or_container_cannot_be_known() -> None:
    assert is_alive(replace(this_process(), host="elsewhere")) is None
    assert is_alive(replace(this_process(), namespace="pid:[1]")) is None


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**70])
def test_impossible_pids_are_dead(pid: int) -> None:
    assert is_alive(replace(this_process(), pid=pid)) is False
    assert identify(pid) is None


def test_a_command_with_spaces_and_parentheses(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "60"])
    time.sleep(0.1)
    assert b"a) Z (b" in Path(f"/proc/{child.pid}/stat").read_bytes()
    assert is_alive(_identity_of(child)) is True
    child.kill()
    child.wait()


def test_without_proc_the_pid_must_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]
) -> None:
    monkeypatch.setattr(process_identity, "_PROC", tmp_path)
    identity = _identity_of(sleeper)
    assert identity.started is None
    assert is_alive(identity) is True
    sleeper.kill()
    sleeper.wait()
    assert is_alive(identity) is False


def test_a_process_that_proc_hides_cannot_be_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    mine = this_process()
    monkeypatch.setattr(process_identity, "_PROC", tmp_path)
    assert is_alive(mine) is None


def test_a_killed_driver_vanished_and_stays_so_when_fenced(home: StreamHome) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        identity = identify(child.pid)
        assert identity is not None
        write_lease(home, new_lease(1, "a", identity, epoch_ms()))
        assert read_driver(home, epoch_ms()).state is State.STARTING
        os.kill(child.pid, signal.SIGKILL)
    assert read_driver(home, epoch_ms()).state is State.VANISHED
    fence(home)
    assert read_driver(home, epoch_ms()).state is State.VANISHED


PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "while True: pass"])
"""


def test_a_worker_that_works_is_seen_and_one_that_stands_still_is_not() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True) as parent:
        try:
            eventually(lambda: task_seconds(parent.pid) >= 1)
            os.killpg(parent.pid, signal.SIGSTOP)
            stood = task_seconds(parent.pid)
            busy_until = time.process_time() + 0.2
            while time.process_time() < busy_until:
                assert task_seconds(parent.pid) == stood, "our own processor time is none of its"
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_process_that_is_gone_did_nothing() -> None:
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
    assert task_seconds(ended.pid) == 0
