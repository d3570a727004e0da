"""A real stream home on a real disk."""

from pathlib import Path

import pytest

from sessionizer.home.stream_home import StreamHome


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    stream = StreamHome.of(tmp_path, "clicks")
    stream.prepare()
    return stream
