"""All streams at a glance: what one view says, and that one sick stream hides no other."""

import json
from dataclasses import replace

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord
from sessionizer.control.records.supervision_records import SUPERVISION_FILE, SupervisionRecord
from sessionizer.control.status.driver_status import State
from sessionizer.errors import ControlUnreachable, DuplicateStream, InvalidSpec
from sessionizer.fleet.finding import Rule
from sessionizer.fleet.stream_view import INVALID, StreamView
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import write_operation


def views(platform: Platform) -> dict[str, StreamView]:
    return {view.name: view for view in all_streams(platform.home, platform.streams)}


def test_every_stream_is_there_once_with_what_is_known_of_it(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("clicks")
    _, home = platform.drive("clicks", batch_id=7, running_since=epoch_ms() - 60_000)
    SUPERVISION_FILE.of(home).write(SupervisionRecord(failures=2))
    platform.add("young")
    platform.drive("gone")
    found = views(platform)
    assert list(found) == ["clicks", "young", "gone"]
    clicks, young, gone = found.values()
    assert (clicks.state, young.state, gone.state) == (State.RUNNING, State.NEVER_STARTED, State.RUNNING)
    assert clicks.supervision == SupervisionRecord(failures=2)
    reviewed(clicks.notes)
    assert [view.is_orphan for view in found.values()] == [False, False, True]
    assert (gone.health.rule, gone.health.findings[0].what[:15]) == (Rule.ORPHAN, "driver driver-1")
    assert json.loads(json.dumps(clicks.to_json()))["heartbeat"]["batch_id"] == 7


def test_a_spec_that_cannot_be_read_hides_nothing_of_its_driver(platform: Platform) -> None:
    platform.add("clicks", "name: [")
    platform.drive("clicks")
    (view,) = views(platform).values()
    assert (view.state, view.seen, view.owner.state) == (INVALID, None, State.RUNNING)
    assert isinstance(view.problem, InvalidSpec)
    assert "correct" in view.health.findings[0].what_to_do


def test_a_home_that_cannot_be_looked_into_is_its_own_problem(platform: Platform) -> None:
    for name in ("clicks", "visits"):
        platform.add(name)
        platform.drive(name)
    leases = platform.home / "streams/clicks/control/leases"
    for file in leases.iterdir():
        file.unlink()
    leases.rmdir()
    leases.symlink_to(leases)
    found = views(platform)
    assert isinstance(found["clicks"].problem, ControlUnreachable)
    assert found["visits"].state == State.RUNNING
    with pytest.raises(ControlUnreachable):
        _ = found["clicks"].owner


def test_two_files_of_one_name_are_one_stream_with_a_problem(platform: Platform) -> None:
    """Airflow makes no DAGs of either."""
    platform.add("clicks")
    platform.drive("clicks")
    (platform.streams / "clicks.yml").write_text((platform.streams / "clicks.yaml").read_text())
    (view,) = all_streams(platform.home, platform.streams)
    assert (view.state, view.owner.state, view.health.rule) == (INVALID, State.RUNNING, "invalid_spec")
    assert isinstance(view.problem, DuplicateStream)


def test_a_command_without_a_process_is_seen_though_the_spec_was_removed(platform: Platform) -> None:
    home = StreamHome.of(platform.home, "clicks")
    home.prepare()
    assert not views(platform)["clicks"].is_listed
    record = new_operation(home, "restore", "0123456789abcdef", "olga", ("a", 3), savepoint="nightly")
    write_operation(home, replace(record, step_at=1))
    view = views(platform)["clicks"]
    assert (view.is_listed, view.is_orphan, view.health.rule) == (True, False, "stuck_command")
    assert record.command in platform.call("status").stdout
    platform.drive("clicks")
    view = views(platform)["clicks"]
    assert (view.is_listed, view.is_orphan) == (True, False), "the process that has the lease is its command"


def test_a_file_whose_name_no_stream_may_have(platform: Platform) -> None:
    (platform.streams / "Bad-Name.yaml").write_text("name: Bad-Name")
    (view,) = views(platform).values()
    assert (view.home, view.state) == (None, INVALID)


def test_it_is_as_patient_as_the_installation_says(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.add("clicks")
    platform.drive("clicks", batch_id=1)
    platform.fall_silent("clicks", since=epoch_ms() - 60_000)
    assert views(platform)["clicks"].state == State.RUNNING
    monkeypatch.setenv("SESSIONIZER_STALE_LIMIT", "30 seconds")
    assert views(platform)["clicks"].state == State.STALLED


def test_a_driver_that_waits_for_its_lease_is_the_newest_not_the_owner(platform: Platform) -> None:
    platform.add("clicks")
    lease, home = platform.drive("clicks")
    lease.release()
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-2", at=epoch_ms() + 1, log="a"))
    view = views(platform)["clicks"]
    assert view.driver is not None
    assert (view.driver.uid, view.owner.uid) == ("driver-2", "driver-1")
