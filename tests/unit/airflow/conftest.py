"""A stream of which nothing is prepared."""

from pathlib import Path

import pytest

from sessionizer.home.stream_home import StreamHome


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    return StreamHome.of(tmp_path, "clicks")
