"""A launch that takes as long as a test wants it to."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sessionizer.control.records.process_records import LaunchRecord
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.launching.local import DriverObservation, DriverTraces, Launcher
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


@dataclass(frozen=True)
class SlowLauncher:
    launcher: Launcher

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        record = self.launcher.launch(home, call)
        while hold_of(home).exists():
            time.sleep(0.05)
        return record

    def last_words(self, traces: DriverTraces) -> list[str]:
        return self.launcher.last_words(traces)

    def look_for(self, traces: DriverTraces) -> DriverObservation:
        return self.launcher.look_for(traces)

    def end_by_force(self, traces: DriverTraces) -> None:
        self.launcher.end_by_force(traces)
