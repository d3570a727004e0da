"""The table of the fleet after each change of a record: what the page has kept never shows."""

from pathlib import Path
from typing import Any

import pytest

from sessionizer.fleet import streams as views
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import read_records
from sessionizer.home.clock import epoch_ms
from sessionizer.home.record_file import write_json
from sessionizer.home.stream_home import LineageHome, StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.page import reader as module
from sessionizer.page.reader import PageReader
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import load_stream
from support.processes.fabricated_fleet import STEADY, work
from support.processes.fabricated_platform import Platform, beat, make_canary

NOW = epoch_ms()


@pytest.fixture
def fleet(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A stream that works, and one with a canary. No time passes."""
    for each in (module, views):
        monkeypatch.setattr(each, "epoch_ms", lambda: NOW)
    monkeypatch.setattr(module, "FRESH_MS", 0)
    platform.add("clicks")
    work(platform, "clicks", STEADY, NOW)
    _, home = platform.add_driven("visits", at=NOW, progress_at=NOW, started_at=NOW)
    make_canary(home)
    return platform


def rows(reader: PageReader) -> list[dict[str, Any]]:
    return list(reader.fleet()["streams"])


def records(platform: Platform) -> list[Path]:
    found = (file for file in (platform.home / "streams").glob("*/control/**/*") if file.is_file())
    return sorted(file for file in found if file.parent.name != "history")


def commit(lineage: LineageHome, batch_id: int) -> None:
    for file in (lineage.batches, lineage.open_sessions):
        write_json(file, {"format": 1, "batch_id": batch_id, "groups": {}})


def test_each_lost_or_damaged_record_is_seen_at_once(fleet: Platform) -> None:
    kept = PageReader(fleet.home, fleet.streams)
    seen: set[str] = set()
    usual = rows(kept)
    for file in records(fleet):
        content = file.read_bytes()
        for spoiled in (b"{", b"{}", None):
            file.write_bytes(spoiled) if spoiled is not None else file.unlink()
            found = rows(kept)
            assert found == rows(PageReader(fleet.home, fleet.streams)), f"{file}: {spoiled!r}"
            if found != usual:
                seen.add(file.name)
        file.write_bytes(content)
        assert rows(kept) == usual
    assert {"lineage.json", "heartbeat.json", "spec.json", "canary.json"} <= seen


def test_records_are_read_once_while_only_beats_and_batches_come(
    fleet: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def count(home: StreamHome, spec: StreamSpec) -> StreamView:
        read.append(home.name)
        return read_records(home, spec)

    monkeypatch.setattr(module, "read_records", count)
    home = StreamHome.of(fleet.home, "clicks")
    lineage = home.lineage(active_lineage(home) or "")
    commit(lineage, 90_000)
    reader = PageReader(fleet.home, fleet.streams)
    rows(reader)
    beats = [row["batch_id"] for row in rows(reader)]
    beat(home, at=NOW, batch_id=90_001)
    commit(lineage, 90_001)
    assert [row["batch_id"] for row in rows(reader)] != beats
    assert read == ["clicks", "visits"]


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


def test_a_file_of_the_last_seconds_is_parsed_each_time(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED_MS", 60_000)
    assert reads.rules() == reads.rules()
    assert reads.files == ["clicks.yaml", "visits.yaml"] * 2
