"""A driver that was submitted to another machine: whether the home there is the one that it was launched from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.launch_record import SUBMITTED, LaunchRecord, require_shared_home, write_launch
from sessionizer.errors import HomeNotShared
from support.processes.fabricated_platform import Platform

if TYPE_CHECKING:
    from pathlib import Path


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
    assert "is not the folder that this driver was launched from" in str(result.exception)
    assert not elsewhere.home.exists()


def test_a_driver_in_the_home_of_its_launcher_goes_on_also_when_another_was_launched_since(
    elsewhere: Platform,
) -> None:
    home = elsewhere.add("clicks")
    home.prepare()
    home.driver_log(UID).touch()
    write_launch(home, LaunchRecord(uid="ba9876543210", at=0, log="nowhere"))
    require_shared_home(home, UID, {SUBMITTED: "1"})


def test_a_driver_in_a_copy_of_its_home_finds_no_launch_of_its_own(elsewhere: Platform) -> None:
    home = elsewhere.add("clicks")
    home.prepare()
    write_launch(home, LaunchRecord(uid="ba9876543210", at=0, log=str(home.driver_log("ba9876543210"))))
    with pytest.raises(HomeNotShared, match="the log of its launch is not in it"):
        require_shared_home(home, UID, {SUBMITTED: "1"})


def test_a_driver_that_nobody_submitted_needs_no_launch(elsewhere: Platform) -> None:
    require_shared_home(elsewhere.add("clicks"), UID, {})
