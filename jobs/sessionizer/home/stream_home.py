"""Where a stream keeps everything it owns: one directory per stream under the platform's home."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sessionizer.errors import ControlUnreachable, InvalidSpec
from sessionizer.home.room import unwritable

HOME_VARIABLE: Final = "SESSIONIZER_HOME"
DEFAULT_HOME: Final = ".sessionizer"

NAME_PATTERN: Final = r"[a-z][a-z0-9_]{0,62}"
"""Of a stream or table: safe as a directory, a SQL identifier and part of an Airflow DAG id."""

IDENTIFIER_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
"""Of a driver (uid) or lineage: safe as part of a file name."""


def platform_home() -> Path:
    """The absolute directory all streams live under: ``$SESSIONIZER_HOME``, else ``.sessionizer`` where we run."""
    return Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).expanduser().absolute()


def checked_identifier(field: str, value: str) -> str:
    """``value``, if it may stand in a file name; raises InvalidSpec for ``field`` otherwise."""
    return _checked(field, value, IDENTIFIER_PATTERN)


def _checked(field: str, value: str, pattern: str) -> str:
    if not re.fullmatch(pattern, value):
        raise InvalidSpec(field, value, f"a name matching ^{pattern}$")
    return value


@dataclass(frozen=True, slots=True)
class StreamHome:
    """The directories of one stream. Nothing is created before ``prepare``."""

    root: Path

    @classmethod
    def of(cls, platform_home: Path, name: str) -> StreamHome:
        """The home of stream ``name``; raises InvalidSpec if the name could leave the platform's home."""
        return cls(platform_home.absolute() / "streams" / _checked("name", name, NAME_PATTERN))

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.root.name

    @property
    def control(self) -> Path:
        """Desired state, lease, heartbeat, stop markers, exit records, the active lineage."""
        return self.root / "control"

    @property
    def leases(self) -> Path:
        """One file per fencing token; the highest is the lease."""
        return self.control / "leases"

    @property
    def lineages(self) -> Path:
        """One directory per checkpoint's life."""
        return self.root / "lineages"

    @property
    def tables(self) -> Path:
        """The Delta tables, unless the spec puts them elsewhere."""
        return self.root / "tables"

    @property
    def logs(self) -> Path:
        """What drivers print, one file per driver."""
        return self.root / "logs"

    def checkpoint(self, lineage: str) -> Path:
        """Spark's checkpoint location of ``lineage``."""
        return self.lineages / checked_identifier("lineage", lineage) / "checkpoint"

    def punctuations(self, lineage: str) -> Path:
        """The folder of control rows that the query of ``lineage`` reads as a source."""
        return self.lineages / checked_identifier("lineage", lineage) / "punctuations"

    def table(self, name: str) -> Path:
        """The directory of Delta table ``name``."""
        return self.tables / _checked("table", name, NAME_PATTERN)

    def prepare(self) -> None:
        """Make the directories and prove that they can be written; raises UnwritablePath, DiskFull."""
        for directory in (self.leases, self.control, self.lineages, self.tables, self.logs):
            _make_writable(directory)


def stream_homes(platform_home: Path) -> list[StreamHome]:
    """The homes of all streams that ever ran, by name; raises ControlUnreachable."""
    folder = platform_home.absolute() / "streams"
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ControlUnreachable(folder, error.strerror or str(error)) from error
    return [StreamHome(folder / name) for name in names if re.fullmatch(NAME_PATTERN, name)]


def _make_writable(directory: Path) -> None:
    # Permission bits lie (root, read-only mounts, quotas), so a file is really created.
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"0")
    except OSError as error:
        raise unwritable(directory, f"the stream's {directory.name} directory", error) from error
