"""Repeated checks of a lease by its owner. A lease that cannot be read for a moment is not lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sessionizer.errors import ControlUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

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
