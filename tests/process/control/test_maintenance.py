"""A job has the stream: its driver has ended, nobody starts another, and afterwards all is as it was wanted."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from sessionizer.control.lease import acquire, fence, holder_beats, read_lease
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Phase
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, Vacancy
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.control.status.driver_status import read_driver
from sessionizer.control.status.unfinished_operation import read_unfinished
from sessionizer.errors import DriverStillRuns, LeaseLost
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from support.processes import scripted_driver

JOB = Maintenance("restore-1", "alice", "restore", DesiredState.RUNNING)


@pytest.fixture
def driver(home: StreamHome) -> Iterator[Callable[[str], None]]:
    """Starts a driver that behaves as it is told, and returns when it has the lease."""
    processes = []

    def start(behaviour: str) -> None:
        (home.platform / "behaviour").write_text(behaviour)
        command = [sys.executable, scripted_driver.__file__, "run", home.name, "--home", str(home.platform)]
        processes.append(subprocess.Popen([*command, "--streams", "none", "--uid", "driver-1"]))
        while not read_driver(home, epoch_ms()).state.is_live:
            time.sleep(0.05)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_the_driver_ends_first_and_the_lease_is_the_jobs(home: StreamHome, driver: Callable[[str], None]) -> None:
    driver("steady")
    write_desired(home, DesiredState.RUNNING, by="bob", why="")
    said: list[str] = []
    with hold_lease(home, JOB, 30, said.append) as lease:
        ended = EXIT_FILE.of(home, "driver-1").read()
        assert ended is not None
        assert ended.outcome is ExitOutcome.STOPPED
        assert read_desired(home).state is DesiredState.MAINTENANCE
        lease.check()
        assert lease.uid == "restore-1"
    (line,) = said
    assert line.startswith("driver driver-1 ")
    assert line.endswith(": restore")
    assert read_desired(home).state is DesiredState.RUNNING
    last = read_lease(home)
    assert last is not None
    assert last.vacancy is Vacancy.RELEASED


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
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Moves this process to another host, in its own belief. A silent owner counts as dead after three seconds."""

    def move() -> None:
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
        monkeypatch.setattr("sessionizer.control.lease.TAKEOVER_AFTER_MS", 3_000)

    return move


def test_the_lease_of_a_silent_driver_on_another_host_is_taken_over(
    home: StreamHome, elsewhere: Callable[[], None]
) -> None:
    """Its machine has died, so it has left no exit record."""
    gone = acquire(home, "driver-1")
    elsewhere()
    with hold_lease(home, JOB, 0.1, print) as lease:
        lease.check()
        with pytest.raises(LeaseLost):
            gone.check()
    assert read_desired(home).state is DesiredState.RUNNING


def test_a_driver_on_another_host_that_beats_keeps_the_stream(home: StreamHome, elsewhere: Callable[[], None]) -> None:
    lease = acquire(home, "driver-1")
    elsewhere()
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
        deadline = time.monotonic() + 10
        while (beat := HEARTBEAT_FILE.of(home).read()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert (beat.uid, beat.phase) == (lease.uid, Phase.STARTING)
        unfinished = read_unfinished(home, read_driver(home, epoch_ms()), epoch_ms())
        assert unfinished is not None
        assert unfinished.is_at_work
    assert read_unfinished(home, read_driver(home, epoch_ms()), epoch_ms()) is None


def test_a_command_that_lost_its_lease_beats_no_more(home: StreamHome) -> None:
    lease = acquire(home, "restore-1")
    with holder_beats(lease, every_s=0.01):
        while HEARTBEAT_FILE.of(home).read() is None:
            time.sleep(0.01)
        fence(home, "restore-1")
        time.sleep(0.05)
        (home.control / "heartbeat.json").unlink()
        time.sleep(0.1)
        assert HEARTBEAT_FILE.of(home).read() is None
