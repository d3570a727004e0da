"""SIGTERM and SIGINT as a request to stop."""

from __future__ import annotations

import signal
import threading
from typing import Self


class StopSignals:
    """While it is entered both signals only set ``received``; the driver looks at it between two steps."""

    def __init__(self) -> None:
        self.received = False

    def __enter__(self) -> Self:
        """Handle the signals from now on."""
        self.take_over()
        return self

    def take_over(self) -> None:
        """Handle them (again): Spark's start installs a SIGINT handler of its own, which cancels all jobs."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._receive)

    def __exit__(self, *_: object) -> None:
        """Give them back to Python."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _receive(self, _number: int, _frame: object) -> None:
        self.received = True
