"""Work of a driver on a thread of its own, because what does not answer must not hold up the driver's watch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class BackgroundWork:
    """Work of one kind, one piece at a time. ``name``: of the thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a piece is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Start ``work``, unless a piece is under way. Raises the error of the piece before."""
        if self.is_busy:
            return
        self._raise_error()
        self._thread = threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True)
        self._thread.start()

    def end(self, within_s: float) -> None:
        """Wait so long for the piece that is under way. Raises its error."""
        if self._thread is not None:
            self._thread.join(within_s)
        self._raise_error()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  raised below, in the thread of the driver
            self._error = error

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
