"""What the tests of the command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.cli import app
from support.processes.fabricated_platform import Platform

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    streams = tmp_path / "streams"
    streams.mkdir()
    return Platform(tmp_path / "home", streams)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The whole program, down to its exit code."""

    def call(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["sessionizer", *arguments])
        with pytest.raises(SystemExit) as ended:
            app.main()
        code = ended.value.code
        return code if isinstance(code, int) else 0

    return call
