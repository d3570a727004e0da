"""A stream of which nothing is prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.home.stream_home import StreamHome

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    return StreamHome.of(tmp_path, "clicks")
