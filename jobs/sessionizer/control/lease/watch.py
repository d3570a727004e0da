"""The care of a lease by its owner: repeated checks, and the heartbeats of a command that holds one.

A lease that cannot be read for a moment is not lost. Another machine cannot see a command's process. Without beats a
second command would count it as dead after a while, and a command at work would look like a killed one.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.heartbeat import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.errors import ControlUnreachable, DiskFull, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionizer.control.lease.lease import Lease


UNREACHABLE_LIMIT_S: Final = 60.0
"""Seconds after which a driver that cannot read its lease ends itself. It ends well before another host may take the
lease over (``patience.TAKEOVER_AFTER_MS``), including the time to stop its query."""

_RETRY_EVERY_S: Final = 0.5


class LeaseWatch:
    """Checks ``lease`` with patience. ``clock`` is monotonic, in seconds."""

    def __init__(
        self, lease: Lease, limit_s: float = UNREACHABLE_LIMIT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lease, self._limit_s, self._clock = lease, limit_s, clock
        self._checked_at = clock()

    def look(self) -> bool:
        """Whether the lease was read and is ours.

        Raises LeaseLost at once, ControlUnreachable once the lease could not be read for the limit.
        """
        looked_at = self._clock()
        try:
            self._lease.check()
        except ControlUnreachable:
            if self._clock() - self._checked_at > self._limit_s:
                raise
            return False
        self._checked_at = looked_at
        return True

    def require(self) -> None:
        """Wait until the lease was read and is ours. Call it before each write to a sink.

        Raises LeaseLost at once, and ControlUnreachable once the lease could not be read for the limit.
        """
        while not self.look():
            time.sleep(_RETRY_EVERY_S)


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
