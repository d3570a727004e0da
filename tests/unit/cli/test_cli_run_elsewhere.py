"""A driver that was submitted to another machine: whether the home there is the one that it was launched from."""

import os
from pathlib import Path

import pytest

from sessionizer.control.records.process_records import LAUNCH_FILE, SUBMITTED, LaunchRecord, require_shared_home
from sessionizer.errors import HomeNotShared, InvalidSpec
from sessionizer.home.roots import CONTROL_VARIABLE
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform

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
