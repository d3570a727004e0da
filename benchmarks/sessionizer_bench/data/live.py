"""A live feed, which writes a Parquet file every second with the events of that second."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sessionizer_bench.data import texts

if TYPE_CHECKING:
    from pathlib import Path

EVENTS_PER_SECOND: Final = 100
EVENTS_PER_VISIT: Final = 5
"""Events of a visit, one each second. So it is also a visit's length in seconds."""
TIMEOUT_S: Final = 10
AFTER_THE_SECOND_S: Final = 0.5
"""Moment within a second (s) at which a file appears, half-way between two batches."""


class LiveFeed:
    """A feed that fills ``folder`` from its own thread while the block runs. Every session ends by its timeout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._rng = np.random.default_rng(20_250_101)
        self._thread = threading.Thread(target=self._play, name="live-feed", daemon=True)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _play(self) -> None:
        # Spark's triggers come at whole seconds, and a file's wait for a trigger must not differ between runs.
        begun = math.ceil(time.time()) + AFTER_THE_SECOND_S
        second = 1
        while not self._over.wait(max(0.0, begun + second - time.time())):
            self._write(second, begun + second - 1)
            second += 1

    def _write(self, second: int, since: float) -> None:
        part = self._folder / f"_{second:05d}.part"
        pq.write_table(events_of(self._rng, second, int(since * 1000)), part)
        part.rename(self._folder / f"{second:05d}.parquet")


def events_of(rng: np.random.Generator, second: int, since_ms: int) -> pa.Table:
    """Return the events of a second, which began at ``since_ms`` (epoch ms): one event for each open visit."""
    newcomers = EVENTS_PER_SECOND // EVENTS_PER_VISIT
    first = newcomers * max(0, second - EVENTS_PER_VISIT)
    users = np.arange(first, newcomers * second)
    at_ms = since_ms + np.sort(rng.integers(0, 1000, len(users)))
    return pa.table(
        {
            "user_id": texts.numbered("u", users),
            "event_time": pa.array(at_ms * 1000, pa.timestamp("us", tz="UTC")),
            "event_id": texts.hexadecimal(rng, len(users), 16),
            "data": texts.requests(rng, len(users)),
            "is_last": pa.array(np.zeros(len(users), bool)),
            "timeout_s": pa.array(np.full(len(users), TIMEOUT_S, np.int32)),
        }
    )
