"""A lineage that was drained says so, whatever cut its driver short, and whichever release drained it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.heartbeat import YEAR_9999_MS
from sessionizer.errors import DamagedFile, StreamDrained
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.drained import (
    begin_drain,
    end_drain,
    examine_drain,
    read_drain,
    require_not_drained,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    return home


@pytest.fixture
def lineage(home: StreamHome) -> str:
    return start_lineage(home)


def write_batch(home: StreamHome, lineage: str, batch_id: int, watermark_ms: int, *, committed: bool = True) -> None:
    offsets, commits = (home.checkpoint(lineage) / name for name in ("offsets", "commits"))
    for folder in (offsets, commits):
        folder.mkdir(exist_ok=True)
    (offsets / str(batch_id)).write_text(f'v1\n{json.dumps({"batchWatermarkMs": watermark_ms})}\n{{"logOffset":0}}')
    if committed:
        (commits / str(batch_id)).touch()


def test_a_stream_that_never_ran_or_runs_on_is_not_drained(home: StreamHome) -> None:
    require_not_drained(home)
    lineage = start_lineage(home)
    write_batch(home, lineage, 0, 1_000)
    require_not_drained(home)
    assert examine_drain(home) is None


def test_a_drain_is_over_when_its_last_batch_is(home: StreamHome, lineage: str) -> None:
    write_batch(home, lineage, 3, 1_000)
    begin_drain(home, lineage)
    require_not_drained(home)
    begun = read_drain(home, lineage)
    begin_drain(home, lineage)
    assert begun == read_drain(home, lineage)
    end_drain(home, lineage)
    with pytest.raises(StreamDrained, match=r"'clicks' was drained on .* UTC after batch 3: every session is closed"):
        require_not_drained(home)


def test_a_drain_of_an_earlier_release_is_known_by_its_watermark(home: StreamHome, lineage: str) -> None:
    write_batch(home, lineage, 0, 1_000)
    write_batch(home, lineage, 1, YEAR_9999_MS, committed=False)
    require_not_drained(home)
    write_batch(home, lineage, 1, YEAR_9999_MS)
    with pytest.raises(StreamDrained, match="after batch 1"):
        require_not_drained(home)


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}", "v1\n[]\n", "v1\nnothing"])
def test_an_offset_log_that_tells_nothing_is_no_drain(home: StreamHome, lineage: str, text: str) -> None:
    write_batch(home, lineage, 0, 0)
    (home.checkpoint(lineage) / "offsets" / "0").write_text(text)
    require_not_drained(home)


def test_a_damaged_record_is_not_guessed(home: StreamHome, lineage: str) -> None:
    home.checkpoint(lineage).with_name("drained.json").write_text("{")
    with pytest.raises(DamagedFile):
        require_not_drained(home)
    assert examine_drain(home) is None
