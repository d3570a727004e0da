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
    from contextlib import AbstractContextManager

    from sessionizer.control.lease.lease import Lease


UNREACHABLE_LIMIT_S: Final = 60.0
"""Seconds after which a driver that cannot read its lease ends itself. It ends well before another host may take the
lease over (``timeouts.TAKEOVER_AFTER_MS``), including the time to stop its query."""

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
"""Seconds between two beats: far below ``timeouts.STALE_AFTER_MS``. In a store each beat costs a few requests, which
may be billed."""


@contextmanager
def beats(write: Callable[[], None], every_s: float, *, at_once: bool = False) -> Iterator[None]:
    """Call ``write`` every ``every_s`` seconds in a thread of its own, until the block ends.

    A LeaseLost ends the beats, because the heartbeat then belongs to the successor.
    """
    done = threading.Event()

    def beat() -> None:
        wait_s = 0.0 if at_once else every_s
        with suppress(LeaseLost):
            while not done.wait(wait_s):
                write()
                wait_s = every_s

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def holder_beats(lease: Lease, every_s: float = EVERY_S) -> AbstractContextManager[None]:
    """Return a block in which a command writes beats as the holder of ``lease``, the first one at once.

    A beat that cannot be written is skipped.
    """
    started_at = epoch_ms()
    return beats(lambda: _write_beat(lease, started_at), every_s, at_once=True)


def _write_beat(lease: Lease, started_at: int) -> None:
    """Write a beat. A command has no batches, so each beat is progress of its start. Raises LeaseLost."""
    with suppress(ControlUnreachable, UnwritablePath, DiskFull):
        lease.check()
        now = epoch_ms()
        HEARTBEAT_FILE.of(lease.home).write(Heartbeat(lease.uid, now, started_at, Phase.STARTING, progress_at=now))
