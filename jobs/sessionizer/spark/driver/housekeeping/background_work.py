"""Work of a driver on a thread of its own, because what does not answer must not hold up the driver's watch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class BackgroundWork:
    """Work of one kind, one piece at a time. ``name``: of the thread.

    An error that a piece does not handle ends the piece alone. Python prints it into the driver's log.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a piece is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Start ``work``, unless a piece is under way."""
        if not self.is_busy:
            self._thread = threading.Thread(target=work, name=self._name, daemon=True)
            self._thread.start()

    def end(self, within_s: float) -> None:
        """Wait so long for the piece that is under way."""
        if self._thread is not None:
            self._thread.join(within_s)
