"""Which files a batch brings, as the checkpoint's log of a file source has them. Spark has no public way to ask."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.lineage_home import offset_log, source_log

if TYPE_CHECKING:
    from pathlib import Path

EVENTS: Final = 0
PUNCTUATIONS: Final = 1
"""The events are the first source of the query, the punctuations the second."""
_ABOUT_THE_BATCH: Final = 2
"""Lines before those of the sources in a file of offsets: its version, then the batch."""


def files_of_batch(checkpoint: Path, batch_id: int, source: int = EVENTS) -> list[str]:
    """URIs of the files of ``source`` in a batch that is planned: its offsets are written. Raises OSError."""
    before, until = (_end(checkpoint, batch, source) for batch in (batch_id - 1, batch_id))
    return [
        str(entry["path"])
        for offset in range(before + 1, until + 1)
        for entry in _entries(source_log(checkpoint, source), offset)
        if entry["batchId"] == offset
    ]


def files_until(checkpoint: Path, batch_id: int, source: int) -> list[str]:
    """URIs of the files of ``source`` in all batches up to ``batch_id``. Raises OSError."""
    end = _end(checkpoint, batch_id, source)
    log = source_log(checkpoint, source)
    offsets = {int(part.name.partition(".")[0]) for part in log.glob("[0-9]*")} if log.is_dir() else set()
    entries = (entry for offset in sorted(offsets) for entry in _entries(log, offset))
    return sorted({str(entry["path"]) for entry in entries if entry["batchId"] <= end})


def _end(checkpoint: Path, batch_id: int, source: int) -> int:
    """The last offset of the source that the batch reads, -1 for none."""
    if batch_id < 0:
        return -1
    lines = (offset_log(checkpoint) / str(batch_id)).read_text(encoding="utf-8").splitlines()
    end = lines[_ABOUT_THE_BATCH + source]
    return -1 if end == "-" else int(json.loads(end)["logOffset"])


def _entries(log: Path, offset: int) -> list[dict[str, Any]]:
    """What a part of the log lists; every tenth part holds those before it, too."""
    part = log / str(offset)
    part = part if part.exists() else log / f"{offset}.compact"
    return [json.loads(line) for line in part.read_text(encoding="utf-8").splitlines()[1:]]
