"""Where a stream keeps everything it owns: one directory per stream under the platform's home.

What controls it (a few KB, which Airflow and the drivers see) and its data (which drivers and executors see) are two
directories, in two roots where the platform has a data root (``data_root``) or a control root (``control_root``) of its
own, else in one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.home.control_files import ControlFiles, OwnFiles
from sessionizer.home.control_root import control_root
from sessionizer.home.control_store import record_names, unreachable
from sessionizer.home.data_reach import make_writable, make_writable_control
from sessionizer.home.lineage_home import CHECKPOINT_RECORD, LineageHome
from sessionizer.home.names import IDENTIFIER_PATTERN, checked_identifier, checked_name, is_name
from sessionizer.home.platform_home import STREAMS, streams_folder
from sessionizer.home.private_folder import close_to_others

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath
    from sessionizer.home.data_root import DataPath

LINEAGES: Final = "lineages"
CONTROL: Final = "control"

LOG_NAME: Final = re.compile(rf"driver\.({IDENTIFIER_PATTERN})\.log(\.\d+)?")
"""Of a driver's log or an older part of it; its group is the driver's uid."""


@dataclass(frozen=True, slots=True)
class StreamHome:
    """The directories of one stream. Nothing is created before ``prepare``.

    ``data_root``: where the platform keeps what Spark writes, ``control_root``: where it keeps its records; None where
    that is its home.
    """

    root: Path
    data_root: DataPath | None = None
    control_root: ControlPath | None = None

    @classmethod
    def of(cls, platform_home: Path, name: str, data_root: DataPath | None = None) -> StreamHome:
        """The home of stream ``name``; raises InvalidSpec if the name could leave the platform's home.

        Where control is the environment says, to all alike: who looked elsewhere would start a second driver.
        """
        root = streams_folder(platform_home) / checked_name("name", name)
        return cls(root, data_root, _own_root(control_root(platform_home.absolute()), platform_home.absolute()))

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.root.name

    @property
    def platform(self) -> Path:
        """The platform's home."""
        return self.root.parents[1]

    @property
    def control_base(self) -> ControlPath:
        """The control root: the platform's home, unless it has another."""
        return self.platform if self.control_root is None else self.control_root

    @property
    def control(self) -> ControlPath:
        """Desired state, lease, heartbeat, stop markers, exit records, the active lineage."""
        return self.own if self.control_root is None else self.control_root / STREAMS / self.name / CONTROL

    @property
    def own(self) -> Path:
        """What only this machine has to see; beside the records where these are in the home."""
        return self.root / CONTROL

    @property
    def own_files(self) -> OwnFiles:
        """The files of ``own``."""
        return OwnFiles(self.own)

    @property
    def control_files(self) -> ControlFiles:
        """The files of the control directory."""
        return ControlFiles(self.control)

    @property
    def leases(self) -> ControlPath:
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
    def data(self) -> DataPath:
        """Lineages and tables: what Spark writes."""
        return self.root if self.data_root is None else self.data_root / STREAMS / self.name

    @property
    def lineages(self) -> DataPath:
        """One directory per checkpoint's life."""
        return self.data / LINEAGES

    @property
    def lineage_records(self) -> ControlPath:
        """What is noted of each lineage: one directory for each."""
        return self.control / LINEAGES

    @property
    def tables(self) -> DataPath:
        """The Delta tables, unless the spec puts them elsewhere."""
        return self.data / "tables"

    def lineage(self, lineage: str) -> LineageHome:
        """The directories of ``lineage``."""
        name = checked_identifier("lineage", lineage)
        return LineageHome(self.lineages / name, self._records_of(name))

    def _records_of(self, lineage: str) -> ControlPath:
        """Beside its checkpoint where an earlier release put them at its birth: they stay there (docs/adr/0075)."""
        beside = self.root / LINEAGES / lineage
        there = self.control_root is None and (beside / CHECKPOINT_RECORD).exists()
        return beside if there else self.lineage_records / lineage

    def checkpoint(self, lineage: str) -> DataPath:
        """Spark's checkpoint location of ``lineage``."""
        return self.lineage(lineage).checkpoint

    def punctuations(self, lineage: str) -> DataPath:
        """The folder of control rows that the query of ``lineage`` reads as a source."""
        return self.lineage(lineage).punctuations

    def table(self, name: str) -> DataPath:
        """The directory of Delta table ``name``."""
        return self.tables / checked_name("table", name)

    @property
    def savepoints(self) -> DataPath:
        """One directory per savepoint, unless they are put elsewhere."""
        return self.data / "savepoints"

    @property
    def seeds(self) -> DataPath:
        """One directory for each seed that is under way: what its history came to."""
        return self.data / "seeds"

    @property
    def unpacked(self) -> DataPath:
        """A copy of each native savepoint that is read just now."""
        return self.data / "unpacked"

    @property
    def bookmarks(self) -> DataPath:
        """How far each report has read the sessions."""
        return self.data / "reports"

    def prepare(self) -> None:
        """Make the directories of control and prove that they can be written. Raises as ``make_writable_control``."""
        make_writable_control((self.leases, self.control, self.lineage_records))
        if self.control_root is None:
            self.prepare_own()

    def prepare_own(self) -> None:
        """The same of what is in the home wherever control is, for who launches. Raises UnwritablePath, DiskFull."""
        for directory in (self.logs,) if self.control_root is None else (self.own, self.logs):
            make_writable(directory, f"the stream's {directory.name} directory")
            close_to_others(directory)

    def prepare_data(self) -> None:
        """The same of the data, which only drivers may: raises as ``make_writable``."""
        for directory in (self.lineages, self.tables):
            make_writable(directory, f"the stream's {directory.name} directory")
        for held in (self.lineages, self.savepoints, self.seeds, self.unpacked):
            close_to_others(held)


def stream_homes(platform_home: Path) -> list[StreamHome]:
    """The homes of all streams that ever ran, by name; raises ControlUnreachable, and as ``control_root``."""
    folder = control_root(platform_home.absolute()) / STREAMS
    try:
        names = record_names(folder)
        if isinstance(folder, Path):
            names = [name for name in names if (folder / name).is_dir()]
    except OSError as error:
        raise unreachable(folder, error) from error
    return [StreamHome.of(platform_home, name) for name in names if is_name(name)]


def _own_root(control: ControlPath, platform_home: Path) -> ControlPath | None:
    return None if control == platform_home else control
