"""A launch that takes as long as a test wants it to."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sessionizer.control.records.process_records import LaunchRecord
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall


@contextmanager
def launches_held_up(home: StreamHome) -> Iterator[None]:
    """Within it, a launch of the stream that has begun does not end."""
    hold_of(home).touch()
    try:
        yield
    finally:
        hold_of(home).unlink()


def hold_of(home: StreamHome) -> Path:
    return home.root / "hold"


class SlowLauncher(ConnectionLauncher):
    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        record = super().launch(home, call)
        while hold_of(home).exists():
            time.sleep(0.05)
        return record
