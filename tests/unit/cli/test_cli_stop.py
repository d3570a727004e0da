"""``sessionizer stop`` against drivers in every state, and commands on a home: its identity, drivers without a spec."""

import json
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.cli.run import STILL_RUNNING
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.operation import new_operation
from sessionizer.control.records.process_records import (
    EXIT_FILE,
    LAUNCH_FILE,
    STOP_FILE,
    SUBMITTED,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    require_shared_home,
    stop_requested,
    write_exit,
)
from sessionizer.control.records.supervision_records import (
    WATCH_FILE,
    DesiredState,
    WatchRecord,
    read_desired,
    write_desired,
)
from sessionizer.control.status.driver_status import DriverStatus, State, judge_status
from sessionizer.errors import HomeCopied, HomeNotShared, InvalidSpec, UnknownStream, UnwritablePath
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import epoch_ms
from sessionizer.home.home_identity import home_id, require_home_here
from sessionizer.home.roots import CONTROL_VARIABLE
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from support.expected.file_accesses import file_accesses
from support.fixtures.reviewed import Reviewed
from support.places import known
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation
from support.verbs.scripted_runner import ScriptedRunner


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
    lease, home = platform.add_driven("visits")

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
    request = known(STOP_FILE.of(home, "driver-1").read())
    assert request.why == "a rest"
    again = platform.call("stop", "visits")
    assert again.exit_code == 0
    reviewed(again.stdout)


def test_a_driver_that_goes_on_is_reported(platform: Platform, reviewed: Reviewed) -> None:
    _, home = platform.add_driven("visits")
    result = platform.call("stop", "visits", "--wait", "0.3")
    assert result.exit_code == STILL_RUNNING
    reviewed(result.stdout)
    assert stop_requested(home, "driver-1")


def test_a_silent_driver_can_be_killed_by_what_is_said(platform: Platform) -> None:
    platform.add_driven("visits")
    platform.fall_silent("visits", since=epoch_ms() - 3_600_000)
    result = platform.call("stop", "visits", "--wait", "0.1")
    assert result.exit_code == STILL_RUNNING
    assert f"kill {os.getpid()}" in result.stderr


def test_without_waiting(platform: Platform) -> None:
    platform.add_driven("visits")
    result = platform.call("stop", "visits", "--wait", "0")
    assert (result.exit_code, result.stdout) == (0, "asked driver driver-1 of visits to stop\n")


def test_a_supervisor_that_would_start_it_again_is_mentioned(platform: Platform, reviewed: Reviewed) -> None:
    _, home = platform.add_driven("visits")
    write_desired(home, DesiredState.RUNNING, by="airflow", why="test")
    reviewed(platform.call("stop", "visits", "--wait", "0").stderr)


def test_a_driver_of_airflow_has_a_supervisor_though_no_user_has_set_a_desired_state(platform: Platform) -> None:
    _, home = platform.add_driven("visits")
    assert "visits.stop" not in platform.call("stop", "visits", "--wait", "0").stderr
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 1, log="a.log"))
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, streams=str(platform.streams)))
    assert "visits.stop" in platform.call("stop", "visits", "--wait", "0").stderr
    (platform.streams / "visits.yaml").unlink()
    assert "visits.stop" not in platform.call("stop", "visits", "--wait", "0").stderr, "an orphan has no DAGs"


def test_the_watch_of_airflow_is_read_once(platform: Platform) -> None:
    """Between two reads Airflow may write it anew, and the two answers would contradict each other."""
    _, home = platform.add_driven("visits")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 1, log="a.log"))
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, streams=str(platform.streams)))
    with file_accesses() as seen:
        assert "visits.stop" in platform.call("stop", "visits", "--wait", "0").stderr
    assert len([each for each in seen if each.endswith("/watch.json")]) == 1


def test_an_orphan_whose_desired_state_was_set_has_no_supervisor_either(platform: Platform, reviewed: Reviewed) -> None:
    """A start or a command has set it, and the spec was renamed later: Airflow has no DAG of this name any more."""
    _, home = platform.add_driven("visits")
    write_desired(home, DesiredState.RUNNING, by="DAG visits.start", why="test")
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, streams=str(platform.streams)))
    (platform.streams / "visits.yaml").rename(platform.streams / "visitors.yaml")
    reviewed(platform.call("stop", "visits", "--wait", "0").stderr)
    elsewhere = str(platform.home / "not mounted here")
    WATCH_FILE.of(home).write(WatchRecord(run_id="now", try_number=1, streams=elsewhere))
    assert "visits.stop" in platform.call("stop", "visits", "--wait", "0").stderr, "its specs cannot be seen from here"


def test_a_command_that_has_the_stream_is_not_asked_to_stop(platform: Platform) -> None:
    _, home = platform.add_driven("visits")
    write_desired(home, DesiredState.MAINTENANCE, by="olga", why="restore visits")
    result = platform.call("stop", "visits")
    assert (result.exit_code, "restore visits" in result.stdout, "visits.stop" in result.stderr) == (0, True, True)
    assert not stop_requested(home, "driver-1")


def test_a_command_that_was_killed_is_named_with_how_to_end_it(platform: Platform) -> None:
    lease, home = platform.add_driven("visits")
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
    record = known(EXIT_FILE.of(home, "launched-1").read())
    assert (record.error_type, record.terminal) == ("InvalidSpec", True)
    assert [path.name for path in home.root.iterdir()] == ["control"]


def test_the_record_of_a_false_start_does_not_end_a_live_driver_of_that_uid(platform: Platform) -> None:
    lease, home = platform.add_driven("visits")
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


@pytest.fixture
def copy(platform: Platform) -> Platform:
    home = platform.add_prepared("visits")
    home_id(home.control_base)
    return replace(platform, home=shutil.copytree(platform.home, platform.home.with_name("copy")))


def shown(platform: Platform, *flags: str) -> Result:
    return CliRunner().invoke(app, ["home", "--home", str(platform.home), *flags])


def test_the_command_shows_a_copy_and_notes_a_move(platform: Platform, copy: Platform) -> None:
    identity = home_id(platform.home)
    assert shown(platform).stdout.startswith(f"home {identity} is at {platform.home}")
    told = shown(copy).stdout
    assert str(platform.home) in told
    assert str(copy.home) in told
    with pytest.raises(HomeCopied):
        require_home_here(copy.home)
    assert shown(copy, "--moved-here").exit_code == 0
    require_home_here(copy.home)
    assert shown(copy).stdout.startswith(f"home {identity} is at {copy.home}")


def test_a_folder_in_which_no_stream_ran_is_no_home(platform: Platform) -> None:
    result = shown(platform, "--moved-here")
    assert isinstance(result.exception, InvalidSpec)
    assert not (platform.home / "home.json").exists()


def test_no_command_takes_the_stream_of_a_copy_whose_data_is_outside(copy: Platform) -> None:
    home = StreamHome.of(copy.home, "visits", copy.home.with_name("data"))
    record = new_operation(home, "rollback", "0" * 16, "someone", ("20261121T105501-3fa9c2", 1))
    before = read_desired(home)
    with pytest.raises(HomeCopied):
        carry_out(home, record, "a test", 1, ScriptedRunner(home=home, work=lambda *_: pytest.fail("taken")))
    assert read_desired(home) == before


def orphans(platform: Platform) -> list[str]:
    return [view.name for view in all_streams(platform.home, platform.streams) if view.is_orphan]


@pytest.mark.parametrize(("specified", "found"), [((), ["visits"]), (("clicks",), ["visits"]), (("visits",), [])])
def test_only_live_drivers_without_a_spec(platform: Platform, specified: tuple[str, ...], found: list[str]) -> None:
    for name in specified:
        platform.add(name)
    lease, home = platform.drive("visits")
    assert orphans(platform) == found
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    assert orphans(platform) == []


def test_every_state(platform: Platform) -> None:
    seen, home = judge_status(DriverStatus(), 1), StreamHome.of(platform.home, "visits")
    drivers = {state: replace(seen, state=state) for state in State}
    views = {
        state: StreamView(name="visits", home=home, specified=False, driver=driver) for state, driver in drivers.items()
    }
    assert {state for state, view in views.items() if view.is_orphan} == {state for state in State if state.is_live}


def test_no_platform_yet(platform: Platform) -> None:
    assert list(all_streams(platform.home, platform.streams)) == []


def test_status_shows_it_with_the_command(platform: Platform, reviewed: Reviewed) -> None:
    platform.add_driven("visits")
    assert "no spec describes" not in platform.call("status").stdout
    (platform.streams / "visits.yaml").rename(platform.streams / "visitors.yaml")
    result = platform.call("status")
    assert "visits: degraded: driver driver-1" in result.stdout
    reviewed(result.stdout.splitlines()[-1], pid=os.getpid())
    (one,) = json.loads(platform.call("status", "visits", "--json").stdout)
    assert one["health"]["rule"] == "orphan"


def test_a_broken_spec_makes_no_orphan(platform: Platform) -> None:
    platform.add("visits", "name: [")
    platform.drive("visits")
    assert "no spec describes" not in platform.call("status").stdout


def test_stop_needs_no_spec(platform: Platform, reviewed: Reviewed) -> None:
    _, home = platform.drive("visits")
    reviewed(platform.call("stop", "visits", "--wait", "0").stdout)
    assert stop_requested(home, "driver-1")


def test_a_dead_stream_without_a_spec_is_unknown(platform: Platform) -> None:
    lease, home = platform.drive("visits")
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    assert isinstance(platform.call("status", "visits").exception, UnknownStream)


UID = "0123456789ab"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Platform:
    found = Platform(tmp_path / "home", tmp_path / "streams")
    found.streams.mkdir()
    found.add("clicks")
    return found


def test_a_driver_in_another_home_makes_nothing_there(elsewhere: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUBMITTED, "1")
    result = elsewhere.call("run", "clicks", "--uid", UID)
    assert isinstance(result.exception, HomeNotShared)
    assert result.exception.path.is_relative_to(elsewhere.home)
    assert not elsewhere.home.exists()


def test_a_driver_in_the_home_of_its_launcher_goes_on_also_when_another_was_launched_since(
    elsewhere: Platform,
) -> None:
    home = elsewhere.add("clicks")
    home.prepare()
    home.driver_log(UID).touch()
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="ba9876543210", at=0, log="nowhere"))
    require_shared_home(home, UID, {SUBMITTED: "1"})


def test_a_driver_in_a_copy_of_its_home_finds_no_launch_of_its_own(elsewhere: Platform, reviewed: Reviewed) -> None:
    home = elsewhere.add("clicks")
    home.prepare()
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="ba9876543210", at=0, log=str(home.driver_log("ba9876543210"))))
    with pytest.raises(HomeNotShared) as raised:
        require_shared_home(home, UID, {SUBMITTED: "1"})
    reviewed(raised.value)


def test_a_driver_that_nobody_submitted_needs_no_launch(elsewhere: Platform) -> None:
    require_shared_home(elsewhere.add("clicks"), UID, {})


def test_a_control_root_at_a_path_must_be_the_launchers_too(
    elsewhere: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed
) -> None:
    monkeypatch.setenv(CONTROL_VARIABLE, str(tmp_path / "shared"))
    home = StreamHome.of(elsewhere.home, "clicks")
    with pytest.raises(HomeNotShared) as raised:
        require_shared_home(home, UID, {SUBMITTED: "1"})
    reviewed(raised.value)
    home.prepare()
    LAUNCH_FILE.of(home).write(LaunchRecord(uid=UID, at=0, log="on another machine"))
    require_shared_home(home, UID, {SUBMITTED: "1"})


def test_the_command_line_says_before_its_verb_where_control_is(
    elsewhere: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reviewed: Reviewed
) -> None:
    monkeypatch.setenv(CONTROL_VARIABLE, "")
    assert elsewhere.call("--control", str(tmp_path / "shared"), "stop", "clicks").exit_code == 0
    assert os.environ[CONTROL_VARIABLE] == str(tmp_path / "shared"), "for all that this process starts, too"
    refused = elsewhere.call("--control", "s3a://bucket/control", "status")
    assert isinstance(refused.exception, InvalidSpec)
    reviewed(refused.exception)
