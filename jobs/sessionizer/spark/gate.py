"""The gate before every batch: where a driver that must stop, stops with nothing half-written."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class DrainRequested(Exception):
    """Raised at the start of a batch that will not be run."""


class BatchGate:
    """Lets batches through one at a time until it is closed; ``must_stop`` is asked before each."""

    def __init__(self, must_stop: Callable[[], bool]) -> None:
        self._must_stop = must_stop
        self._in_batch = threading.Lock()
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether no further batch will run."""
        return self._closed.is_set()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Hold the gate for one batch. Raises DrainRequested instead when no batch may start."""
        with self._in_batch:
            if self.closed or self._must_stop():
                self._closed.set()
                raise DrainRequested
            yield

    def close(self, patience_s: float) -> bool:
        """No batch starts from now on; False when one is still running after ``patience_s`` seconds."""
        self._closed.set()
        if not self._in_batch.acquire(timeout=patience_s):
            return False
        self._in_batch.release()
        return True
