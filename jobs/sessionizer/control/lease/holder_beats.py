"""Heartbeats of a command that holds a stream's lease.

Another machine cannot see the command's process. Without beats a second command would count it as dead after a while,
and a command at work would look like a killed one.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.heartbeat import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.errors import ControlUnreachable, DiskFull, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.control.lease.lease import Lease

EVERY_S: Final = 10.0
"""Seconds between two beats: far below ``patience.STALE_AFTER_MS``. In a store each beat costs a few requests, which
may be billed."""


@contextmanager
def holder_beats(lease: Lease, every_s: float = EVERY_S) -> Iterator[None]:
    """Write a beat as the holder of ``lease``, at once and then every ``every_s`` seconds, until the block ends.

    Beats stop when the lease is lost, because the heartbeat then belongs to its successor. A beat that cannot be
    written is skipped.
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
    """Write a beat. A command has no batches, so each beat is progress of its start. Raises LeaseLost."""
    with suppress(ControlUnreachable, UnwritablePath, DiskFull):
        lease.check()
        now = epoch_ms()
        HEARTBEAT_FILE.of(lease.home).write(Heartbeat(lease.uid, now, started_at, Phase.STARTING, progress_at=now))
