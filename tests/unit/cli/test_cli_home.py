"""Commands on a home: its identity, drivers without a spec, runs on another host."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.operation import new_operation
from sessionizer.control.records.process_records import (
    LAUNCH_FILE,
    SUBMITTED,
    ExitOutcome,
    ExitRecord,
    LaunchRecord,
    require_shared_home,
    stop_requested,
    write_exit,
)
from sessionizer.control.records.supervision_records import read_desired
from sessionizer.control.status.driver_status import DriverStatus, State, judge_status
from sessionizer.errors import HomeCopied, HomeNotShared, InvalidSpec, UnknownStream
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import epoch_ms
from sessionizer.home.home_identity import home_id, require_home_here
from sessionizer.home.roots import CONTROL_VARIABLE
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.scripted_runner import ScriptedRunner


@pytest.fixture
def copy(platform: Platform) -> Platform:
    home = platform.add("visits")
    home.prepare()
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
    platform.add("visits")
    platform.drive("visits")
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
