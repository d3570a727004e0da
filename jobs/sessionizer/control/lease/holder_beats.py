"""Heartbeats of a command that holds a stream's lease.

On another machine its process cannot be seen. Without a beat a second command took it for dead after a while, and
nothing told a command at work from one that was killed.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.heartbeat import Heartbeat, Phase, write_heartbeat
from sessionizer.errors import ControlUnreachable, DiskFull, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.control.lease.lease import Lease

EVERY_S: Final = 10.0
"""Far below ``patience.STALE_AFTER_MS``. In a store each beat is a few requests, which may be paid for."""


@contextmanager
def holder_beats(lease: Lease, every_s: float = EVERY_S) -> Iterator[None]:
    """Beat as the holder of ``lease``, at once and then every ``every_s`` seconds, until the block ends.

    Beats stop when the lease is lost: then the heartbeat is its successor's. A beat that cannot be written is left out.
    """
    started_at, done = epoch_ms(), threading.Event()

    def beat() -> None:
        while True:
            try:
                _write_beat(lease, started_at)
            except LeaseLost:
                return
            if done.wait(every_s):
                return

    thread = threading.Thread(target=beat, name="heartbeat of a command", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _write_beat(lease: Lease, started_at: int) -> None:
    """A command has no batches, so each beat is progress of its start. Raises LeaseLost."""
    with suppress(ControlUnreachable, UnwritablePath, DiskFull):
        lease.check()
        now = epoch_ms()
        write_heartbeat(lease.home, Heartbeat(lease.uid, now, started_at, Phase.STARTING, progress_at=now))
