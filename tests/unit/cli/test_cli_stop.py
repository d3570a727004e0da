"""``sessionizer stop`` against drivers in every state."""

import os
import threading
import time
from pathlib import Path

import pytest

from sessionizer.cli.run import STILL_RUNNING
from sessionizer.control.operation import new_operation
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    LAUNCH_FILE,
    STOP_FILE,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    stop_requested,
    write_exit,
)
from sessionizer.control.records.supervision_records import WATCH_FILE, DesiredState, WatchRecord, write_desired
from sessionizer.errors import InvalidSpec, UnknownStream, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from support.expected.file_accesses import file_accesses
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation


def test_nothing_runs(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("visits")
    result = platform.call("stop", "visits")
    assert result.exit_code == 0
    reviewed(result.stdout)
    assert str(platform.home) in result.stderr, "it may run in another home"
    assert not platform.home.exists()


def test_an_unknown_stream_is_an_error(platform: Platform) -> None:
    platform.add("visits")
    assert isinstance(platform.call("stop", "visit").exception, UnknownStream)


def test_it_waits_for_the_exit_record_and_tells_it(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("visits")
    lease, home = platform.drive("visits")

    def end_at_the_request() -> None:
        while not stop_requested(home, lease.uid):
            time.sleep(0.01)
        write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED, batch_id=7))

    driver = threading.Thread(target=end_at_the_request)
    driver.start()
    result = platform.call("stop", "visits", "--why", "a rest")
    driver.join()
    assert result.exit_code == 0
    reviewed(result.stdout)
    request = STOP_FILE.of(home, "driver-1").read()
    assert request is not None
    assert request.why == "a rest"
    again = platform.call("stop", "visits")
    assert again.exit_code == 0
    reviewed(again.stdout)


def test_a_driver_that_goes_on_is_reported(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("visits")
    _, home = platform.drive("visits")
    result = platform.call("stop", "visits", "--wait", "0.3")
    assert result.exit_code == STILL_RUNNING
    reviewed(result.stdout)
    assert stop_requested(home, "driver-1")


def test_a_silent_driver_can_be_killed_by_what_is_said(platform: Platform) -> None:
    platform.add("visits")
    platform.drive("visits")
    platform.fall_silent("visits", since=epoch_ms() - 3_600_000)
    result = platform.call("stop", "visits", "--wait", "0.1")
    assert result.exit_code == STILL_RUNNING
    assert f"kill {os.getpid()}" in result.stderr


def test_without_waiting(platform: Platform) -> None:
    platform.add("visits")
    platform.drive("visits")
    result = platform.call("stop", "visits", "--wait", "0")
    assert (result.exit_code, result.stdout) == (0, "asked driver driver-1 of visits to stop\n")


def test_a_supervisor_that_would_start_it_again_is_mentioned(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("visits")
    _, home = platform.drive("visits")
    write_desired(home, DesiredState.RUNNING, by="airflow", why="test")
    reviewed(platform.call("stop", "visits", "--wait", "0").stderr)


def test_a_driver_of_airflow_has_a_supervisor_though_no_user_has_set_a_desired_state(platform: Platform) -> None:
    platform.add("visits")
    _, home = platform.drive("visits")
    assert "visits.stop" not in platform.call("stop", "visits", "--wait", "0").stderr
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 1, log="a.log"))
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, streams=str(platform.streams)))
    assert "visits.stop" in platform.call("stop", "visits", "--wait", "0").stderr
    (platform.streams / "visits.yaml").unlink()
    assert "visits.stop" not in platform.call("stop", "visits", "--wait", "0").stderr, "an orphan has no DAGs"


def test_the_watch_of_airflow_is_read_once(platform: Platform) -> None:
    """Between two reads Airflow may write it anew, and the two answers would contradict each other."""
    platform.add("visits")
    _, home = platform.drive("visits")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 1, log="a.log"))
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, streams=str(platform.streams)))
    with file_accesses() as seen:
        assert "visits.stop" in platform.call("stop", "visits", "--wait", "0").stderr
    assert len([each for each in seen if each.endswith("/watch.json")]) == 1


def test_an_orphan_whose_desired_state_was_set_has_no_supervisor_either(platform: Platform, reviewed: Reviewed) -> None:
    """A start or a command has set it, and the spec was renamed later: Airflow has no DAG of this name any more."""
    platform.add("visits")
    _, home = platform.drive("visits")
    write_desired(home, DesiredState.RUNNING, by="DAG visits.start", why="test")
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, streams=str(platform.streams)))
    (platform.streams / "visits.yaml").rename(platform.streams / "visitors.yaml")
    reviewed(platform.call("stop", "visits", "--wait", "0").stderr)
    elsewhere = str(platform.home / "not mounted here")
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, streams=elsewhere))
    assert "visits.stop" in platform.call("stop", "visits", "--wait", "0").stderr, "its specs cannot be seen from here"


def test_a_command_that_has_the_stream_is_not_asked_to_stop(platform: Platform) -> None:
    platform.add("visits")
    _, home = platform.drive("visits")
    write_desired(home, DesiredState.MAINTENANCE, by="olga", why="restore visits")
    result = platform.call("stop", "visits")
    assert (result.exit_code, "restore visits" in result.stdout, "visits.stop" in result.stderr) == (0, True, True)
    assert not stop_requested(home, "driver-1")


def test_a_command_that_was_killed_is_named_with_how_to_end_it(platform: Platform) -> None:
    platform.add("visits")
    lease, home = platform.drive("visits")
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    record = new_operation(home, "rescale", "0123456789abcdef", "olga", (start_lineage(home), 4))
    write_operation(home, record)
    write_desired(home, DesiredState.MAINTENANCE, by="olga", why="rescale to 3 key groups")
    result = platform.call("stop", "visits")
    assert (result.exit_code, "rescale" in result.stdout) == (0, True)
    assert record.command in result.stderr


@pytest.mark.parametrize("wait", ["-1", "soon"])
def test_a_wait_that_is_none_is_refused(platform: Platform, wait: str) -> None:
    assert platform.call("stop", "visits", "--wait", wait).exit_code == 2


@pytest.mark.parametrize("state", [DesiredState.RUNNING, DesiredState.STOPPED])
def test_a_command_before_its_first_step_is_not_asked_to_stop(platform: Platform, state: DesiredState) -> None:
    """A user started or stopped the stream while the command waited for the driver's end."""
    platform.add("visits")
    uid = "restore-20261127T162618-c0867f"
    _, home = platform.drive("visits", uid)
    write_desired(home, state, by="olga", why="")
    result = platform.call("stop", "visits", "--wait", "0")
    assert (result.exit_code, uid in result.stdout) == (0, True)
    assert not stop_requested(home, uid)


def test_until_is_a_choice(platform: Platform) -> None:
    platform.add("visits")
    result = platform.call("run", "visits", "--until", "sometime")
    assert result.exit_code == 2
    assert "caught-up" in result.stderr


def test_a_launched_driver_that_never_starts_leaves_its_exit_record(platform: Platform) -> None:
    home = platform.add("visits", "name: visits\n")
    result = platform.call("run", "visits", "--uid", "launched-1")
    assert isinstance(result.exception, InvalidSpec)
    record = EXIT_FILE.of(home, "launched-1").read()
    assert record is not None
    assert (record.error_type, record.terminal) == ("InvalidSpec", True)
    assert [path.name for path in home.root.iterdir()] == ["control"]


def test_the_record_of_a_false_start_does_not_end_a_live_driver_of_that_uid(platform: Platform) -> None:
    platform.add("visits")
    lease, home = platform.drive("visits")
    platform.add("visits", "name: visits\n")
    platform.call("run", "visits", "--uid", lease.uid)
    assert EXIT_FILE.of(home, lease.uid).read() is None


def test_a_person_who_misspells_leaves_nothing(platform: Platform) -> None:
    platform.add("visits", "name: visits\n")
    platform.call("run", "visits")
    assert not StreamHome.of(platform.home, "visits").root.exists()


def test_a_history_is_refused_before_spark(platform: Platform, tmp_path: Path) -> None:
    platform.add("visits")
    there = ("--input", str(tmp_path))
    assert isinstance(platform.call("history", "visits", "--input", "/nowhere").exception, InvalidSpec)
    assert isinstance(platform.call("history", "visits", *there, "--until", "noon").exception, InvalidSpec)
    assert isinstance(platform.call("history", "visits", *there, "--to", str(tmp_path)).exception, UnwritablePath)
