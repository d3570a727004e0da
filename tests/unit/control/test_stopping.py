"""All that may be at work are asked to stop, whoever asks, and nobody else is."""

from sessionizer.control.lease import acquire
from sessionizer.control.maintenance import ask_to_stop
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord, stop_requested
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed


def test_the_owner_of_the_lease_and_one_that_waits_for_it(home: StreamHome, reviewed: Reviewed) -> None:
    said: list[str] = []
    assert ask_to_stop(home, "a test", said.append) == set()
    acquire(home, "driver-1")
    LAUNCH_FILE.of(home).write(
        LaunchRecord(uid="driver-2", at=epoch_ms(), log="a", master="yarn", submission="driver-2")
    )
    assert ask_to_stop(home, "a test", said.append) == {"driver-1", "driver-2"}
    reviewed(said)
    assert stop_requested(home, "driver-1")
    assert stop_requested(home, "driver-2")


def test_a_command_that_has_the_lease_is_waited_for_and_not_asked(home: StreamHome, reviewed: Reviewed) -> None:
    uid = "restore-20261127T162618-c0867f"
    said: list[str] = []
    acquire(home, uid)
    assert ask_to_stop(home, "restore to monday", said.append) == {uid}
    assert not stop_requested(home, uid)
    reviewed(said)


def test_one_that_its_cluster_refused_is_not_asked(home: StreamHome) -> None:
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="refused", at=epoch_ms(), log="a", master="yarn", submission="refused"))
    exit_code = home.submission("refused")
    exit_code.write_text("0\n")
    assert ask_to_stop(home, "a test") == {"refused"}
    exit_code.write_text("1\n")
    assert ask_to_stop(home, "a test") == set()


def test_one_that_gave_its_lease_back_is_not_asked_as_one_that_waits(home: StreamHome) -> None:
    lease = acquire(home, "a")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="a", at=epoch_ms(), log="a", master="yarn", submission="a"))
    assert ask_to_stop(home, "a test") == {"a"}
    lease.release()
    assert ask_to_stop(home, "a test") == set()
