"""Stop of a driver: by a signal, and at the gate before every batch, with nothing half-written."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from sessionizer.errors import SessionizerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REFUSED_BATCH: Final = (
    "stop requested: stopped before the next batch. Spark logs a GateClosed error for it, which is expected"
)


class GateClosed(Exception):
    """Raised at the start of a batch that must not run."""


class StopGate:
    """A gate that lets batches through one at a time until it is closed. It asks ``must_stop`` before each."""

    def __init__(self, must_stop: Callable[[], bool]) -> None:
        self._must_stop = must_stop
        self._in_batch = threading.Lock()
        self._closed = threading.Event()
        self._refused = threading.Event()
        self._batch_id: int | None = None
        self._failure: SessionizerError | None = None

    @property
    def failure(self) -> SessionizerError | None:
        """Error of ours that ended a batch, because Spark passes on only its text."""
        return self._failure

    @property
    def closed(self) -> bool:
        """Whether no further batch will run."""
        return self._closed.is_set()

    @property
    def refused(self) -> bool:
        """Whether the gate refused a batch, which ends its query. That end is no failure."""
        return self._refused.is_set()

    @property
    def batch_id(self) -> int | None:
        """Number of the running batch, None while there is none, or one is only planned."""
        return self._batch_id

    @contextmanager
    def batch(self, batch_id: int) -> Iterator[None]:
        """Hold the gate for one batch. Raises GateClosed if no batch may start."""
        with self._in_batch:
            if self.closed or self._must_stop():
                self._closed.set()
                self._refused.set()
                raise GateClosed
            self._batch_id = batch_id
            try:
                yield
            except SessionizerError as error:
                self._failure = error
                raise
            finally:
                self._batch_id = None

    def close(self) -> None:
        """Let no further batch start. A running one is finished."""
        self._closed.set()


class StopSignals:
    """Handler of both signals while it is entered: they only set ``received``.

    The driver reads it between two steps.
    """

    def __init__(self) -> None:
        self.received = False

    def __enter__(self) -> Self:
        """Handle the signals until the exit."""
        self.take_over()
        return self

    def take_over(self) -> None:
        """Handle them (again), because Spark's start installs a SIGINT handler of its own, which cancels all jobs."""
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
