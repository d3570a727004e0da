"""Whether a process still lives, told from its identity."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from sessionizer.control.lease import acquire, fence, holder_beats, read_lease, write_lease
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.records import process_records as process_identity
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Phase
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    ExitOutcome,
    ProcessIdentity,
    Vacancy,
    identify,
    is_alive,
    new_lease,
    this_process,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.control.status.driver_status import State, read_driver
from sessionizer.control.status.unfinished_operation import read_unfinished
from sessionizer.errors import DriverStillRuns, LeaseLost
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.driver.query_watch import task_seconds
from support.places import known
from support.processes import scripted_driver
from support.processes.ports import eventually


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        yield child
        child.kill()


def _identity_of(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    return known(identify(child.pid))


def test_this_process_lives() -> None:
    assert this_process() == identify(os.getpid())
    assert is_alive(this_process()) is True


def test_a_killed_process_is_dead_as_zombie_and_after(sleeper: subprocess.Popen[bytes]) -> None:
    identity = _identity_of(sleeper)
    assert is_alive(identity) is True
    os.kill(sleeper.pid, signal.SIGKILL)
    stat = Path(f"/proc/{sleeper.pid}/stat")
    eventually(lambda: b") Z " in stat.read_bytes())
    assert is_alive(identity) is False
    sleeper.wait()
    assert is_alive(identity) is False
    assert identify(sleeper.pid) is None


def test_a_stopped_process_lives(sleeper: subprocess.Popen[bytes]) -> None:
    identity = _identity_of(sleeper)
    os.kill(sleeper.pid, signal.SIGSTOP)
    assert is_alive(identity) is True


OTHERS: dict[str, tuple[dict[str, Any], bool | None]] = {
    "another process of its pid": ({"started": (this_process().started or 0) - 1}, False),
    "another run of the machine": ({"boot_id": "00000000-0000-0000-0000-000000000000"}, False),
    "another host": ({"host": "elsewhere"}, None),
    "another container": ({"namespace": "pid:[1]"}, None),
}


@pytest.mark.parametrize("name", OTHERS)
def test_of_another_machine_nothing_is_known_and_what_is_over_here_is_dead(name: str) -> None:
    changes, lives = OTHERS[name]
    assert is_alive(replace(this_process(), **changes)) is lives


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**70])
def test_impossible_pids_are_dead(pid: int) -> None:
    assert is_alive(replace(this_process(), pid=pid)) is False
    assert identify(pid) is None


def test_a_command_with_spaces_and_parentheses(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([odd, "60"])
    eventually(lambda: b"a) Z (b" in Path(f"/proc/{child.pid}/stat").read_bytes())
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
        write_lease(home, new_lease(1, "a", _identity_of(child), epoch_ms()))
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
            (worker,) = psutil.Process(parent.pid).children()
            os.killpg(parent.pid, signal.SIGSTOP)
            eventually(lambda: worker.status() == psutil.STATUS_STOPPED)
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


JOB = Maintenance("restore-1", "alice", "restore", DesiredState.RUNNING)


@pytest.fixture
def driver(home: StreamHome) -> Iterator[Callable[[str], None]]:
    """Starts a driver that behaves as it is told, and returns when it has the lease."""
    processes = []

    def start(behaviour: str) -> None:
        (home.platform / "behaviour").write_text(behaviour)
        command = [sys.executable, scripted_driver.__file__, "run", home.name, "--home", str(home.platform)]
        processes.append(subprocess.Popen([*command, "--streams", "none", "--uid", "driver-1"]))
        eventually(lambda: read_driver(home, epoch_ms()).state.is_live)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_the_driver_ends_first_and_the_lease_is_the_jobs(home: StreamHome, driver: Callable[[str], None]) -> None:
    driver("steady")
    write_desired(home, DesiredState.RUNNING, by="bob", why="")
    said: list[str] = []
    with hold_lease(home, JOB, 120, said.append) as lease:
        assert known(EXIT_FILE.of(home, "driver-1").read()).outcome is ExitOutcome.STOPPED
        assert read_desired(home).state is DesiredState.MAINTENANCE
        lease.check()
        assert lease.uid == "restore-1"
    (line,) = said
    assert line.startswith("driver driver-1 ")
    assert line.endswith(": restore")
    assert read_desired(home).state is DesiredState.RUNNING
    assert known(read_lease(home)).vacancy is Vacancy.RELEASED


def test_a_driver_that_goes_on_keeps_the_stream(home: StreamHome, driver: Callable[[str], None]) -> None:
    driver("deaf")
    with (
        pytest.raises(DriverStillRuns, match=r"process driver-1 of .* still runs 0.5 s"),
        hold_lease(home, JOB, 0.5, print),
    ):
        pytest.fail("the stream is not ours")
    desired = read_desired(home)
    assert (desired.state, desired.afterwards) == (DesiredState.MAINTENANCE, JOB.afterwards), "for the next try"
    assert read_driver(home, epoch_ms()).uid == "driver-1"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Moves this process to another host, in its own belief. A silent owner counts as dead after so many ms."""

    def move(takeover_ms: int) -> None:
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
        monkeypatch.setattr("sessionizer.control.lease.TAKEOVER_AFTER_MS", takeover_ms)

    return move


def test_the_lease_of_a_silent_driver_on_another_host_is_taken_over(
    home: StreamHome, elsewhere: Callable[[int], None]
) -> None:
    """Its machine has died, so it has left no exit record."""
    gone = acquire(home, "driver-1")
    elsewhere(3_000)
    with hold_lease(home, JOB, 0.1, print) as lease:
        lease.check()
        with pytest.raises(LeaseLost):
            gone.check()
    assert read_desired(home).state is DesiredState.RUNNING


def test_a_driver_on_another_host_that_beats_keeps_the_stream(
    home: StreamHome, elsewhere: Callable[[int], None]
) -> None:
    lease = acquire(home, "driver-1")
    elsewhere(60_000)
    with (
        holder_beats(lease, every_s=0.1),
        pytest.raises(DriverStillRuns, match=r"process driver-1 of .* still runs"),
        hold_lease(home, JOB, 0.1, print),
    ):
        pytest.fail("the stream is not ours")
    assert read_desired(home).state is DesiredState.MAINTENANCE, "for the next try"


def test_what_fails_in_between_leaves_the_stream_in_maintenance_and_the_lease_free(home: StreamHome) -> None:
    with pytest.raises(ZeroDivisionError), hold_lease(home, JOB, 5, print):
        _ = 1 / 0
    assert read_desired(home).state is DesiredState.MAINTENANCE
    with hold_lease(home, JOB, 5, print):
        pass
    assert read_desired(home).state is DesiredState.RUNNING


def test_a_command_beats_as_long_as_it_has_the_stream(home: StreamHome) -> None:
    with hold_lease(home, JOB, 5, print) as lease:
        eventually(HEARTBEAT_FILE.of(home).read)
        beat = known(HEARTBEAT_FILE.of(home).read())
        assert (beat.uid, beat.phase) == (lease.uid, Phase.STARTING)
        unfinished = read_unfinished(home, pending_operation(home), read_driver(home, epoch_ms()), epoch_ms())
        assert known(unfinished).is_at_work
    assert read_unfinished(home, pending_operation(home), read_driver(home, epoch_ms()), epoch_ms()) is None


def test_a_command_that_lost_its_lease_beats_no_more(home: StreamHome) -> None:
    lease = acquire(home, "restore-1")
    with holder_beats(lease, every_s=0.01):
        eventually(HEARTBEAT_FILE.of(home).read)
        fence(home, "restore-1")
        eventually(lambda: "heartbeat" not in {thread.name for thread in threading.enumerate()})
