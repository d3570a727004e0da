"""Which files a batch brings, read from a checkpoint as Spark writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sessionizer.spark.ingest.file_log import EVENTS, PUNCTUATIONS, files_of_batch, files_until
from sessionizer.spark.ingest.taken_punctuations import TakenPunctuations

if TYPE_CHECKING:
    from pathlib import Path


def write_checkpoint(checkpoint: Path, ends: list[int | None], of: int = EVENTS) -> None:
    """A file at every offset of the source, and a batch that ends at each of ``ends``."""
    log = checkpoint / "sources" / str(of)
    log.mkdir(parents=True)
    (checkpoint / "offsets").mkdir()
    entries = [json.dumps({"path": f"file:///feed/{at}.json", "timestamp": at, "batchId": at}) for at in range(12)]
    for at, entry in enumerate(entries):
        name, lines = (f"{at}.compact", entries[: at + 1]) if at % 10 == 9 else (str(at), [entry])
        (log / name).write_text("\n".join(["v1", *lines]))
    for batch, end in enumerate(ends):
        source = "-" if end is None else json.dumps({"logOffset": end})
        sources = f"{source}\n-" if of == EVENTS else f"-\n{source}"
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{sources}")


def test_each_file_is_in_one_batch(tmp_path: Path) -> None:
    ends = [None, 0, 3, 3, 8, 9, 11]
    write_checkpoint(tmp_path, ends)
    brought = [files_of_batch(tmp_path, batch) for batch in range(len(ends))]
    assert [len(files) for files in brought] == [0, 1, 3, 0, 5, 1, 2]
    assert [file for files in brought for file in files] == [f"file:///feed/{at}.json" for at in range(12)]


def test_all_files_until_a_batch(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, [None, 0, 3, 9, 11])
    assert [len(files_until(tmp_path, batch, EVENTS)) for batch in range(5)] == [0, 1, 4, 10, 12]
    assert files_until(tmp_path, 0, PUNCTUATIONS) == []


def test_punctuations_are_removed_with_their_batch_and_not_before(tmp_path: Path) -> None:
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "punctuations"
    folder.mkdir()
    for at in range(13):
        (folder / f"{at}.json").touch()
    write_checkpoint(checkpoint, [None, 0, 3, 9, 11], PUNCTUATIONS)

    def left() -> list[int]:
        return sorted(int(file.stem) for file in folder.iterdir())

    fresh = TakenPunctuations.left_behind(folder, checkpoint)
    fresh.sweep(None)
    assert left() == [*range(13)], "nothing is committed"
    fresh.sweep(1)
    assert left() == [*range(1, 13)]
    fresh.sweep(3)
    assert left() == [10, 11, 12]
    fresh.sweep(3)

    (folder / "2.json").touch()  # as a driver leaves it that is killed before it comes to it
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "3").touch()
    successor = TakenPunctuations.left_behind(folder, checkpoint)
    assert left() == [10, 11, 12]
    successor.sweep(4)
    assert left() == [12]
