"""The page parses a spec again only if its file changed, and a file of the last seconds each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.page import reader as module
from sessionizer.page.reader import PageReader
from sessionizer.stream_spec.spec_folder import load_stream

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.fabricated_platform import Platform


class Reads:
    """A reader of the page, and the files that it parsed."""

    def __init__(self, platform: Platform, patched: pytest.MonkeyPatch) -> None:
        self.files: list[str] = []
        self._reader = PageReader(platform.home, platform.streams)
        patched.setattr(module, "load_stream", self._load)
        patched.setattr(module, "FRESH_MS", 0)

    def _load(self, file: Path) -> Any:
        self.files.append(file.name)
        return load_stream(file)

    def rules(self) -> dict[str, str]:
        """The rule of each stream."""
        return {row["stream"]: row["health"]["rule"] for row in self._reader.fleet()["streams"]}


@pytest.fixture
def reads(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Reads:
    platform.add("visits")
    platform.add("clicks")
    return Reads(platform, monkeypatch)


def test_a_spec_is_parsed_once_until_its_file_changes(
    reads: Reads, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLED_MS", -60_000)
    first = reads.rules()
    assert reads.rules() == first
    assert reads.files == ["clicks.yaml", "visits.yaml"]
    platform.drive("visits")
    platform.add("visits", "name: visits\nsource: nothing\n")
    assert reads.rules()["visits"] == "invalid_spec"
    assert reads.rules()["visits"] == "invalid_spec", "a broken file is not kept"
    assert reads.files.count("clicks.yaml") == 1
    (platform.streams / "clicks.yaml").unlink()
    assert list(reads.rules()) == ["visits"]


def test_a_file_of_the_last_seconds_is_parsed_each_time(reads: Reads) -> None:
    assert reads.rules() == reads.rules()
    assert reads.files == ["clicks.yaml", "visits.yaml"] * 2
