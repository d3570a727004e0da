"""A stream that was renamed or removed while its driver ran: said, and stopped only by a person."""

import json
import os
from dataclasses import replace

import pytest

from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, stop_requested, write_exit
from sessionizer.control.status.driver_status import DriverStatus, State, judge_status
from sessionizer.errors import UnknownStream
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform


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
