"""What the driver knows of open sessions: over restarts, and batches that run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.status.progress_line import HEAVY_GROUP_BYTES, progress_line
from sessionizer.core.key_group.group_load import NOTHING_OPEN, OpenInGroup
from sessionizer.lineage.open_sessions import OpenSessions

if TYPE_CHECKING:
    from pathlib import Path

BROUGHT = OpenInGroup(sessions=2, latest_due_ms=500, held_bytes=100, admitted=3, merged=False)
MERGED = OpenInGroup(sessions=1, latest_due_ms=400, held_bytes=70, admitted=0, merged=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "open_sessions.json"


def known(sessions: OpenSessions) -> tuple[int, int | None, tuple[int | None, int | None]]:
    return sessions.total, sessions.latest_due_ms, sessions.heaviest


def test_what_was_only_appended_counts_from_the_first_batch_on(file: Path) -> None:
    sessions = OpenSessions(file)
    assert known(sessions) == (0, None, (None, None))
    sessions.learn(0, [(3, BROUGHT), (1, MERGED)])
    assert known(sessions) == (3, 500, (3, 100))
    sessions.learn(1, [(3, BROUGHT)])
    assert known(sessions) == (5, 500, (3, 200))


def test_a_merge_says_all_that_is_open_even_in_the_same_batch(file: Path) -> None:
    sessions = OpenSessions(file)
    sessions.learn(0, [(3, BROUGHT)])
    sessions.learn(1, [(3, BROUGHT), (3, MERGED)])
    assert known(sessions) == (1, 400, (3, 70))
    sessions.learn(2, [(3, NOTHING_OPEN)])
    assert known(sessions) == (0, None, (3, 0))


def test_a_batch_that_runs_again_after_a_restart_counts_once(file: Path) -> None:
    OpenSessions(file).learn(7, [(3, BROUGHT), (1, BROUGHT)])
    again = OpenSessions(file)
    again.learn(7, [(3, BROUGHT), (1, BROUGHT)])
    assert known(again) == (4, 500, (3, 100))
    again.learn(8, [(3, BROUGHT)])
    assert again.total == 6


def test_a_heavy_group_is_named() -> None:
    beat = Heartbeat("a", 1, 1, Phase.RUNNING, batch_id=1, heaviest_group=3, heaviest_group_bytes=HEAVY_GROUP_BYTES)
    assert progress_line(beat).endswith("key group 3 is heavy: 0.2 GiB open")
