"""Which files a batch brings, read from a checkpoint as Spark writes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sessionizer.spark.file_log import files_of_batch

if TYPE_CHECKING:
    from pathlib import Path


def write_checkpoint(checkpoint: Path, ends: list[int | None]) -> None:
    """A file at every offset of the source, and a batch that ends at each of ``ends``."""
    log = checkpoint / "sources" / "0"
    log.mkdir(parents=True)
    (checkpoint / "offsets").mkdir()
    entries = [json.dumps({"path": f"file:///feed/{at}.json", "timestamp": at, "batchId": at}) for at in range(12)]
    for at, entry in enumerate(entries):
        name, lines = (f"{at}.compact", entries[: at + 1]) if at % 10 == 9 else (str(at), [entry])
        (log / name).write_text("\n".join(["v1", *lines]))
    for batch, end in enumerate(ends):
        source = "-" if end is None else json.dumps({"logOffset": end})
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{source}\n-")


def test_each_file_is_in_one_batch(tmp_path: Path) -> None:
    ends = [None, 0, 3, 3, 8, 9, 11]
    write_checkpoint(tmp_path, ends)
    brought = [files_of_batch(tmp_path, batch) for batch in range(len(ends))]
    assert [len(files) for files in brought] == [0, 1, 3, 0, 5, 1, 2]
    assert [file for files in brought for file in files] == [f"file:///feed/{at}.json" for at in range(12)]
