"""The driver's writer of samples: it adds each batch to its minute, and writes the hour every few seconds."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sessionizer.control.history.files import hour_name, read_hour, remove_old, write_hour
from sessionizer.control.history.sample import Sample, combine, minute_of
from sessionizer.home.control_store import Store

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

WRITTEN_EVERY_MS: Final = 5_000
"""Milliseconds between two writes of the hour. A crash loses at most so much of the figures."""


class HistoryWriter:
    """The writer of one driver. Only the holder of the lease may have one.

    No method raises, because a stream must not stop for its history. After a failure the next write comes with the next
    batch that is due.
    """

    def __init__(self, home: StreamHome) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._hour = ""
        self._samples: list[Sample] = []
        self._is_written = True
        self._written_at = 0

    def add(self, batch: Sample) -> None:
        """Add a committed batch to its minute. Write the hour if that is due."""
        with self._lock:
            self._begin_hour(batch.at)
            minute = minute_of(batch.at)
            if self._samples and self._samples[-1].at == minute:
                self._samples[-1] = combine(self._samples[-1], batch, minute)
            else:
                self._samples.append(combine(Sample(at=minute), batch, minute))
            self._is_written = False
            self._write(batch.at, unless_recent=True)

    def flush(self, now_ms: int, *, unless_recent: bool = False) -> None:
        """Write the newest figures. With ``unless_recent``, do nothing soon after the last write."""
        with self._lock:
            self._write(now_ms, unless_recent=unless_recent)

    def _begin_hour(self, at_ms: int) -> None:
        hour = hour_name(at_ms)
        if hour == self._hour:
            return
        self._write(at_ms, unless_recent=False)
        self._hour, self._samples = hour, []
        with suppress(OSError):
            Store(self._home.history).make_folder()
        with suppress(OSError, ValueError):
            # an earlier driver may have worked in this hour
            self._samples = list(read_hour(self._home, hour))
        remove_old(self._home, at_ms)

    def _write(self, now_ms: int, *, unless_recent: bool) -> None:
        is_recent = 0 <= now_ms - self._written_at < WRITTEN_EVERY_MS
        if self._is_written or (unless_recent and is_recent):
            return
        self._written_at = now_ms
        with suppress(OSError, ValueError):
            write_hour(self._home, self._hour, self._samples)
            self._is_written = True
