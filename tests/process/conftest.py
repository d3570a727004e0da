"""A real stream home on a real disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.home.stream_home import StreamHome

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    """The prepared home of stream ``clicks``."""
    stream = StreamHome.of(tmp_path, "clicks")
    stream.prepare()
    return stream
