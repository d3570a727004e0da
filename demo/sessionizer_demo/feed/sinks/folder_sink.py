"""A sink that writes one file per tick into a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors import UnwritablePath

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer_demo.feed.pacing import Tick


class FolderSink:
    """A sink that writes ``<run>-<tick><suffix>`` files of one row per line into ``folder``.

    A file is complete before its name appears: it is written under a hidden name, which readers of the folder skip,
    and then renamed. ``run`` must be new, because a reader reads each name once. Raises UnwritablePath.
    """

    def __init__(self, folder: Path, run: str, suffix: str) -> None:
        self._folder, self._run, self._suffix = folder, run, suffix
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, tick: Tick) -> None:
        """Write a new file with the rows of ``tick``. Raises UnwritablePath."""
        name = f"{self._run}-{tick.number:08d}{self._suffix}"
        hidden = self._folder / f".{name}.incomplete"
        try:
            hidden.write_bytes(b"".join(row.value + b"\n" for row in tick.rows))
            hidden.rename(self._folder / name)
        except OSError as error:
            hidden.unlink(missing_ok=True)
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Do nothing, because every file was complete when it got its name."""

    def _unwritable(self, error: OSError) -> UnwritablePath:
        return UnwritablePath(self._folder, "the folder of the feed", error.strerror or str(error))
