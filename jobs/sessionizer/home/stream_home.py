"""Where a stream keeps everything it owns: one directory per stream under the platform's home.

What controls it (a few KB, which Airflow and the drivers see) and its data (which drivers and executors see) are two
directories to everybody but this module, though they have one parent today.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.errors import ControlUnreachable
from sessionizer.home.control_files import ControlFiles
from sessionizer.home.lineage_home import LineageHome
from sessionizer.home.names import IDENTIFIER_PATTERN, checked_identifier, checked_name, is_name
from sessionizer.home.platform_home import streams_folder
from sessionizer.home.room import unwritable

if TYPE_CHECKING:
    from pathlib import Path

LOG_NAME: Final = re.compile(rf"driver\.({IDENTIFIER_PATTERN})\.log(\.\d+)?")
"""Of a driver's log or an older part of it; its group is the driver's uid."""


@dataclass(frozen=True, slots=True)
class StreamHome:
    """The directories of one stream. Nothing is created before ``prepare``."""

    root: Path

    @classmethod
    def of(cls, platform_home: Path, name: str) -> StreamHome:
        """The home of stream ``name``; raises InvalidSpec if the name could leave the platform's home."""
        return cls(streams_folder(platform_home) / checked_name("name", name))

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.root.name

    @property
    def platform(self) -> Path:
        """The platform's home."""
        return self.root.parents[1]

    @property
    def control(self) -> Path:
        """Desired state, lease, heartbeat, stop markers, exit records, the active lineage."""
        return self.root / "control"

    @property
    def control_files(self) -> ControlFiles:
        """The files of the control directory."""
        return ControlFiles(self.control)

    @property
    def leases(self) -> Path:
        """One file per fencing token; the highest is the lease."""
        return self.control_files.leases

    @property
    def logs(self) -> Path:
        """What drivers print, one file per driver."""
        return self.root / "logs"

    def driver_log(self, uid: str) -> Path:
        """What driver ``uid`` prints, when it was launched from Airflow."""
        return self.logs / f"driver.{checked_identifier('uid', uid)}.log"

    @property
    def data(self) -> Path:
        """Lineages and tables: what Spark writes."""
        return self.root

    @property
    def lineages(self) -> Path:
        """One directory per checkpoint's life."""
        return self.data / "lineages"

    @property
    def tables(self) -> Path:
        """The Delta tables, unless the spec puts them elsewhere."""
        return self.data / "tables"

    def lineage(self, lineage: str) -> LineageHome:
        """The directory of ``lineage``."""
        return LineageHome(self.lineages / checked_identifier("lineage", lineage))

    def checkpoint(self, lineage: str) -> Path:
        """Spark's checkpoint location of ``lineage``."""
        return self.lineage(lineage).checkpoint

    def punctuations(self, lineage: str) -> Path:
        """The folder of control rows that the query of ``lineage`` reads as a source."""
        return self.lineage(lineage).punctuations

    def table(self, name: str) -> Path:
        """The directory of Delta table ``name``."""
        return self.tables / checked_name("table", name)

    @property
    def savepoints(self) -> Path:
        """One directory per savepoint, unless they are put elsewhere."""
        return self.data / "savepoints"

    @property
    def bookmarks(self) -> Path:
        """How far each report has read the sessions."""
        return self.data / "reports"

    def prepare(self) -> None:
        """Make the directories and prove that they can be written; raises UnwritablePath, DiskFull."""
        for directory in (self.leases, self.control, self.lineages, self.tables, self.logs):
            _make_writable(directory)


def stream_homes(platform_home: Path) -> list[StreamHome]:
    """The homes of all streams that ever ran, by name; raises ControlUnreachable."""
    folder = streams_folder(platform_home)
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ControlUnreachable(folder, error.strerror or str(error)) from error
    return [StreamHome(folder / name) for name in names if is_name(name)]


def _make_writable(directory: Path) -> None:
    # Permission bits lie (root, read-only mounts, quotas), so a file is really created.
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"0")
    except OSError as error:
        raise unwritable(directory, f"the stream's {directory.name} directory", error) from error
