"""The stream that is watched, and the commands of the drivers that it gets."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.supervision.act import Supervisor
from support.expected.driver_statuses import Heard
from support.processes.watched_stream import WatchedStream


@pytest.fixture
def watched(
    home: StreamHome, tmp_path: Path, notified: Path, said: Heard, new_supervisor: Callable[[], Supervisor]
) -> WatchedStream:
    home.prepare()
    (tmp_path / "specs").mkdir()
    return WatchedStream(home, tmp_path / "specs", notified, said, new_supervisor)
