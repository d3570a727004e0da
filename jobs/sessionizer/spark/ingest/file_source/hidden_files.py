"""Files that Spark ignores because of their names, as a line for the user who wonders why they are not read."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from sessionizer.home.roots import located

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.stream_spec.document.source import Source

LOOKED_AT: Final = 10_000
"""Most entries of a folder that are read, because a driver does not wait for a folder of millions."""


def files_passed_over(source: Source, platform_home: Path) -> str | None:
    """Say how many files of a local folder are not read because of their names.

    None if there is no such file or folder.
    """
    if source.format != "files" or "://" in (folder := located(source.path, platform_home)):
        return None
    with suppress(OSError), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, LOOKED_AT) if _is_passed_over(entry))
        if names:
            files = "1 file is" if len(names) == 1 else f"{len(names)} files are"
            return f"{files} not read in {folder}: names that begin with _ or . are hidden ({', '.join(names[:3])})"
    return None


def _is_passed_over(entry: os.DirEntry[str]) -> bool:
    """Whether the file is hidden, and no mark that a writer left beside its files."""
    is_mark = entry.name == "_SUCCESS" or entry.name.endswith(".crc")
    return entry.name.startswith(("_", ".")) and not is_mark and entry.is_file()
