"""A feed into a folder: complete files only, counted truly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessionizer.errors import UnwritablePath
from sessionizer_demo.feed.generator import generate_within
from sessionizer_demo.feed.rows.kinds import Destination, RowKind
from sessionizer_demo.feed.runner import FeedOptions, FolderTarget, run_feed
from sessionizer_demo.feed.scenario import Bounds, Scenario

if TYPE_CHECKING:
    from sessionizer_demo.feed.tally import Tally

START_MS = 1_750_000_000_000
SCENARIO = Scenario(start_ms=START_MS)
BOUNDS = Bounds(events=2_000)


def options(folder: Path) -> FeedOptions:
    return FeedOptions(scenario=SCENARIO, target=FolderTarget(folder), bounds=BOUNDS, is_paced=False)


def visible_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name[0] not in "._")


def lines_of(folder: Path) -> list[bytes]:
    return [line for path in visible_files(folder) for line in path.read_bytes().splitlines()]


def test_the_files_hold_every_row_in_order_and_nothing_else(tmp_path: Path) -> None:
    tally = run_feed(options(tmp_path))
    assert lines_of(tmp_path) == [row.value for row in generate_within(SCENARIO, BOUNDS)]
    assert tally.rows == 2_000
    assert visible_files(tmp_path) == sorted(tmp_path.iterdir())


def test_a_file_is_complete_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename
    renamed = []

    def watched_rename(source: Path, target: Path) -> Path:
        assert source.name[0] in "._"
        assert not target.exists()
        renamed.append((target, source.read_bytes()))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", watched_rename)
    run_feed(options(tmp_path))
    assert [target for target, _ in renamed] == visible_files(tmp_path)
    assert all(target.read_bytes() == content and content.endswith(b"\n") for target, content in renamed)


def test_the_tally_is_the_ground_truth(tmp_path: Path) -> None:
    tally = run_feed(options(tmp_path))
    rows = list(generate_within(SCENARIO, BOUNDS))
    assert tally.by_kind == {kind: n for kind in RowKind if (n := sum(row.kind is kind for row in rows))}
    assert sum(tally.rows_by_destination.values()) == tally.rows
    for_sessions = [row for row in rows if row.kind.destination is Destination.SESSIONS]
    assert tally.rows_by_destination[Destination.SESSIONS] == len(for_sessions)
    assert tally.logouts == sum(row.event.type == "logout" for row in for_sessions)
    assert json.loads(json.dumps(tally.as_dict()))["rows"] == 2_000


def test_progress_is_told_after_each_tick(tmp_path: Path) -> None:
    seen: list[int] = []

    def note(tally: Tally) -> None:
        seen.append(tally.rows)
        assert len(lines_of(tmp_path)) == tally.rows

    run_feed(options(tmp_path), on_tick=note)
    assert len(seen) == len(visible_files(tmp_path))


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnwritablePath):
        run_feed(options(tmp_path / "file" / "folder"))
