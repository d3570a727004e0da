"""How far a checkpoint is, by the names of its files: light, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.home.lineage_home import commit_log, offset_log

if TYPE_CHECKING:
    from pathlib import Path


def begun_batch(checkpoint: Path) -> int | None:
    """The newest batch whose input is settled; None if there was no batch."""
    return _newest(offset_log(checkpoint))


def committed_batch(checkpoint: Path) -> int | None:
    """The newest batch that is over; None if none is."""
    return _newest(commit_log(checkpoint))


def _newest(log: Path) -> int | None:
    """The highest number of a log of Spark's."""
    names = (file.name for file in log.iterdir()) if log.is_dir() else ()
    return max((int(name) for name in names if name.isdecimal()), default=None)
