"""Removal of punctuations by a driver whose store is away for a while."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sessionizer.spark.driver.housekeeping import housekeeping as punctuation_removal
from sessionizer.spark.driver.housekeeping.housekeeping import RETRY_AFTER_MS, PunctuationRemoval

if TYPE_CHECKING:
    from pathlib import Path


class Query:
    """A checkpoint each of whose batches has read one punctuation, with the number of the batch."""

    def __init__(self, root: Path) -> None:
        self.checkpoint, self.folder = root / "checkpoint", root / "punctuations"
        for folder in ("offsets", "commits", "sources/1"):
            (self.checkpoint / folder).mkdir(parents=True)
        self.folder.mkdir()
        self.said: list[str] = []

    def commit(self, batch_id: int) -> int:
        (self.folder / f"{batch_id}.json").touch()
        entry = {"path": f"file:///x/{batch_id}.json", "timestamp": batch_id, "batchId": batch_id}
        self._write(f"sources/1/{batch_id}", json.dumps(entry))
        about = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
        self._write(f"offsets/{batch_id}", about, "-", json.dumps({"logOffset": batch_id}))
        self._write(f"commits/{batch_id}", "{}")
        return batch_id

    def forget(self, batch_id: int) -> None:
        """Delete Spark's logs of an old batch, as Spark does."""
        for log in ("offsets", "commits"):
            (self.checkpoint / log / str(batch_id)).unlink()

    @property
    def left(self) -> list[int]:
        return sorted(int(file.stem) for file in self.folder.iterdir())

    def _write(self, name: str, *lines: str) -> None:
        (self.checkpoint / name).write_text("\n".join(["v1", *lines]))


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path)


@pytest.fixture
def removal(query: Query, monkeypatch: pytest.MonkeyPatch) -> PunctuationRemoval:
    """A removal that has dealt with batch 0, and keeps no batch."""
    monkeypatch.setattr(punctuation_removal, "epoch_ms", lambda: clock[0])
    clock[0] = 1_000_000
    removal = PunctuationRemoval(query.folder, query.checkpoint, query.said.append, keep=0)
    removal.remove(query.commit(0))
    assert (query.left, query.said) == ([], [])
    return removal


clock = [0]


def test_each_committed_batch_is_due_once(query: Query, removal: PunctuationRemoval) -> None:
    assert not removal.is_due(0)
    assert not removal.is_due(None)
    assert removal.is_due(query.commit(1))
    removal.remove(1)
    assert query.left == []
    assert not removal.is_due(1)


@pytest.mark.parametrize("away", ["checkpoint", "punctuations"])
def test_what_a_store_that_was_away_kept_is_removed_a_minute_later(
    query: Query, removal: PunctuationRemoval, away: str
) -> None:
    folder = query.checkpoint if away == "checkpoint" else query.folder
    hidden = folder.with_name("hidden")
    for batch_id in (1, 2):
        query.commit(batch_id)
    folder.rename(hidden)
    if away == "punctuations":
        folder.touch()  # no folder: each removal fails
    removal.remove(2)
    assert len(query.said) == 1
    assert not removal.is_due(2), "not at once"
    if away == "punctuations":
        folder.unlink()
    hidden.rename(folder)
    assert query.left == [1, 2]
    clock[0] += RETRY_AFTER_MS
    assert removal.is_due(2), "without another batch"
    removal.remove(2)
    removal.remove(query.commit(3))
    assert query.left == []
    assert len(query.said) == 1


def test_a_removal_that_still_fails_is_tried_again(query: Query, removal: PunctuationRemoval) -> None:
    file = query.folder / f"{query.commit(1)}.json"
    file.unlink()
    file.mkdir()  # cannot be deleted as a file
    removal.remove(1)
    clock[0] += RETRY_AFTER_MS
    removal.remove(1)
    removal.remove(query.commit(2))
    assert len(query.said) == 2
    file.rmdir()
    file.touch()
    clock[0] += RETRY_AFTER_MS
    removal.remove(2)
    removal.remove(query.commit(3))
    assert query.left == []
    assert len(query.said) == 2


def test_batches_that_spark_forgot_meanwhile_do_not_stop_the_removal(query: Query, removal: PunctuationRemoval) -> None:
    for batch_id in (1, 2, 3):
        query.commit(batch_id)
    for batch_id in (0, 1):
        query.forget(batch_id)
    removal.remove(3)
    assert len(query.said) == 1
    clock[0] += RETRY_AFTER_MS
    removal.remove(3)
    removal.remove(query.commit(4))
    assert query.left == []
    assert len(query.said) == 1
