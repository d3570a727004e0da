"""The status of a stream whose driver was killed, as read from disk."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from sessionizer.control.lease import fence, write_lease
from sessionizer.control.records.process_records import identify, new_lease
from sessionizer.control.status.driver_status import State
from sessionizer.control.status.read_status import read_driver
from sessionizer.home.clock import epoch_ms

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


def test_a_killed_driver_vanished_and_stays_so_when_fenced(home: StreamHome) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        identity = identify(child.pid)
        assert identity is not None
        write_lease(home, new_lease(1, "a", identity, epoch_ms()))
        assert read_driver(home, epoch_ms()).state is State.STARTING
        os.kill(child.pid, signal.SIGKILL)
    assert read_driver(home, epoch_ms()).state is State.VANISHED
    fence(home)
    assert read_driver(home, epoch_ms()).state is State.VANISHED
