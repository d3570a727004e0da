"""All that may be at work are asked to stop, whoever asks, and nobody else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.lease.lease import acquire
from sessionizer.control.records.launch_record import LaunchRecord, write_launch
from sessionizer.control.records.stop_marker import stop_requested
from sessionizer.control.stopping import ask_to_stop
from sessionizer.home.clock import epoch_ms

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


def test_the_owner_of_the_lease_and_one_that_waits_for_it(home: StreamHome) -> None:
    said: list[str] = []
    assert ask_to_stop(home, "a test", said.append) == set()
    acquire(home, "driver-1")
    write_launch(home, LaunchRecord(uid="driver-2", at=epoch_ms(), log="a", master="yarn", submission="driver-2"))
    assert ask_to_stop(home, "a test", said.append) == {"driver-1", "driver-2"}
    assert said == [f"driver {uid} is asked to stop: a test" for uid in ("driver-1", "driver-2")]
    assert stop_requested(home, "driver-1")
    assert stop_requested(home, "driver-2")
