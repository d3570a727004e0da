"""The places of all files of a stream, its lineages and its savepoints, under the platform's home.

Control (a few KB, for Airflow and drivers) and data (for drivers and executors) may be in roots of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from sessionizer.home.control_store import reaching_records, record_names
from sessionizer.home.data_files import make_writable, make_writable_control
from sessionizer.home.local_files import TEMPORARY_SUFFIX, close_to_others
from sessionizer.home.names import IDENTIFIER_PATTERN, STREAMED, TABLES, check_identifier, check_name, is_name
from sessionizer.home.roots import STREAMS, ControlPath, DataPath, control_root, resolve_place, streams_folder, uri_of

ANNOUNCED_TIMEOUTS: Final = "announced_timeouts.json"
CHECKPOINT_RECORD: Final = "checkpoint.json"


Place = TypeVar("Place", bound=DataPath)


class Below(cached_property[Place]):
    """The place of ``name`` below a ``folder`` of a home. The path is made once, and nothing is opened."""

    def __init__(self, folder: str, name: str) -> None:
        super().__init__(lambda home: getattr(home, folder) / name)


@dataclass(frozen=True)
class LineageHome:
    """The files of a lineage, in two folders of its name: the query's in ``root``, the ``records`` in control."""

    root: DataPath
    records: ControlPath

    checkpoint = Below[DataPath]("root", "checkpoint")
    punctuations = Below[DataPath]("root", "punctuations")
    """The folder of control rows that the query reads as a source."""
    open_sessions = Below[ControlPath]("records", "open_sessions.json")
    """The number of open sessions of each key group, and when they end."""
    unreadable_files = Below[ControlPath]("records", "unreadable_files.json")
    """The files of the source that the query skips because they are unreadable."""
    schema_ids = Below[ControlPath]("records", "schema_ids.json")
    """The ids in values that the registry is asked for, beside those of its subject."""
    announced_timeouts = Below[ControlPath]("records", ANNOUNCED_TIMEOUTS)
    batches = Below[ControlPath]("records", "batches.json")
    table_changes = Below[ControlPath]("records", "table_changes.json")
    no_events = Below[DataPath]("root", "no_events")
    """An empty folder, which the first batch of the lineage reads in place of its source."""
    first_log = Below[DataPath]("root", "first_log")
    """The log with which the first batch of the lineage fills its key groups, until it was read back."""
    migration = Below[DataPath]("root", "migration")
    """The sessions that were over before the migration of the lineage, until they are in the tables."""
    rehearsal = Below[DataPath]("root", "rehearsal")
    """A table that a driver makes and deletes, so that Delta's code is warm at a real table's first checkpoint."""


LINEAGES: Final = "lineages"
CONTROL: Final = "control"
FILES_OF_DRIVERS: Final = ("exit.*.json", "stop.*", "submit.*")
"""Patterns of the files that each driver has for itself, by its uid."""

LOG_NAME: Final = re.compile(rf"driver\.({IDENTIFIER_PATTERN})\.log(\.\d+)?")
"""Pattern of the name of a driver's log or an older part of it. Its group is the driver's uid."""


@dataclass(frozen=True)
class StreamHome:
    """The directories of one stream. Nothing is created before ``prepare``.

    ``data_root`` is the platform's place for Spark's files, ``control_root`` its place for records. None: the home.
    """

    root: Path
    data_root: DataPath | None = None
    control_root: ControlPath | None = None

    @classmethod
    def of(cls, platform_home: Path, name: str, data_root: DataPath | None = None) -> StreamHome:
        """Return the home of stream ``name``. Raises InvalidSpec if the name could leave the platform's home.

        The control root comes from the environment of every process, because a process that looked elsewhere would
        start a second driver.
        """
        root = streams_folder(platform_home) / check_name("name", name)
        control, home = control_root(platform_home.absolute()), platform_home.absolute()
        return cls(root, data_root, None if control == home else control)

    @classmethod
    def scratch(cls, folder: Path, name: str, data_root: DataPath | None = None) -> StreamHome:
        """Return a home for a copy of the stream, whose records are in ``folder`` wherever the control root is."""
        return cls(streams_folder(folder) / name, data_root)

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

    @cached_property
    def control(self) -> ControlPath:
        """Desired state, lease, heartbeat, stop markers, exit records, the active lineage."""
        return self.own if self.control_root is None else self.control_root / STREAMS / self.name / CONTROL

    @cached_property
    def own(self) -> Path:
        """The folder of files that only this machine needs. They are beside the records if these are in the home."""
        return self.root / CONTROL

    def submission(self, uid: str) -> Path:
        """Return the file with the exit code of the process that submits driver ``uid`` to a cluster."""
        return self.own / f"submit.{check_identifier('uid', uid)}"

    def reserve(self, uid: str) -> Path:
        """Return the file by which driver ``uid`` reserves disk space for its exit record."""
        return self.own / f".reserve.{check_identifier('uid', uid)}{TEMPORARY_SUFFIX}"

    lineage_record = Below[ControlPath]("control", "lineage.json")
    history = Below[ControlPath]("control", "history")
    """The folder of the stream's history: a file for each hour and each mark."""
    leases = Below[ControlPath]("control", "leases")
    """The folder with a file for each fencing token. The highest token is the lease."""
    logs = Below[Path]("root", "logs")

    def driver_log(self, uid: str) -> Path:
        """Return the file with the output of driver ``uid``, if Airflow launched it."""
        return self.logs / f"driver.{check_identifier('uid', uid)}.log"

    @cached_property
    def data(self) -> DataPath:
        """The folder of Spark's files: lineages and tables."""
        return self.root if self.data_root is None else self.data_root / STREAMS / self.name

    @cached_property
    def lineages(self) -> DataPath:
        """The folder with a directory for each checkpoint's life."""
        return self.data / LINEAGES

    @cached_property
    def lineage_records(self) -> ControlPath:
        """The folder with a directory of records for each lineage."""
        return self.control / LINEAGES

    tables = Below[DataPath]("data", "tables")
    """The Delta tables, unless the spec puts them elsewhere."""

    @cached_property
    def _lineage_homes(self) -> dict[str, LineageHome]:
        return {}

    def lineage(self, lineage: str) -> LineageHome:
        """Return the directories of ``lineage``."""
        if lineage not in self._lineage_homes:
            name = check_identifier("lineage", lineage)
            self._lineage_homes[name] = LineageHome(self.lineages / name, self.lineage_records / name)
        return self._lineage_homes[lineage]

    def checkpoint(self, lineage: str) -> DataPath:
        """Return Spark's checkpoint location of ``lineage``."""
        return self.lineage(lineage).checkpoint

    def punctuations(self, lineage: str) -> DataPath:
        """Return the folder of control rows that the query of ``lineage`` reads as a source."""
        return self.lineage(lineage).punctuations

    def table(self, name: str) -> DataPath:
        """Return the directory of Delta table ``name``."""
        return self.tables / check_name("table", name)

    def table_locations(self, folder: str | None) -> dict[str, str]:
        """Return the place of each table: in the stream's data, or in the ``folder`` of its spec (``sink.path``)."""
        base = None if folder is None else resolve_place(folder, self.platform)
        return {name: uri_of(self.table(name)) if base is None else f"{base}/{name}" for name in TABLES}

    def streamed_locations(self, folder: str | None) -> dict[str, str]:
        """Return the places of the tables that batches write, as ``table_locations``."""
        locations = self.table_locations(folder)
        return {name: locations[name] for name in STREAMED}

    savepoints = Below[DataPath]("data", "savepoints")
    """The folder with a directory for each savepoint, unless the spec puts them elsewhere."""
    seeds = Below[DataPath]("data", "seeds")
    """The folder with a directory for each seed that is under way: the results of its history."""
    unpacked = Below[DataPath]("data", "unpacked")
    """A copy of each native savepoint that is read just now."""
    proofs = Below[DataPath]("data", "proofs")
    """A folder for each proof that is under way: the copy of a lineage, and its tables."""
    bookmarks = Below[DataPath]("data", "reports")
    """The folder with each report's position in the sessions."""

    def prepare(self) -> None:
        """Make the folders of control, and prove that they can be written.

        Raises UnwritablePath, DiskFull, ControlUnreachable, InvalidSpec.
        """
        make_writable_control((self.leases, self.control, self.lineage_records))
        if self.control_root is None:
            self.prepare_own()

    def prepare_own(self) -> None:
        """Make the folders that a launcher needs in the home, wherever control is.

        Raises UnwritablePath, DiskFull, ControlUnreachable.
        """
        for directory in (self.logs,) if self.control_root is None else (self.own, self.logs):
            make_writable(directory, f"the stream's {directory.name} directory")
            close_to_others(directory)

    def prepare_data(self) -> None:
        """Make the data folders, and prove that they can be written. Only drivers may.

        Raises UnwritablePath, DiskFull, StoreUnreachable, InvalidSpec.
        """
        for directory in (self.lineages, self.tables):
            make_writable(directory, f"the stream's {directory.name} directory")
        for held in (self.lineages, self.savepoints, self.seeds, self.unpacked):
            close_to_others(held)


def stream_homes(platform_home: Path) -> list[StreamHome]:
    """Return the homes of all streams that ever ran, by name. Raises ControlUnreachable, InvalidSpec."""
    folder = control_root(platform_home.absolute()) / STREAMS
    with reaching_records(folder):
        names = record_names(folder)
        if isinstance(folder, Path):
            names = [name for name in names if (folder / name).is_dir()]
    return [StreamHome.of(platform_home, name) for name in names if is_name(name)]


OPEN_EVENTS: Final = "open_events"
GROUP_LOGS: Final = "group_logs"
TIMEOUTS: Final = "timeouts"
SEEN_FILES: Final = "seen_files"
CHECKPOINT: Final = "checkpoint"
"""The parts of a savepoint: four Delta tables, or for a native one a copy of the checkpoint's files."""


@dataclass(frozen=True)
class SavepointHome:
    """The files of one savepoint, in the directory ``root``, which is named for it."""

    root: DataPath

    @classmethod
    def of(cls, folder: DataPath, savepoint: str) -> SavepointHome:
        """Return the savepoint with this id in ``folder``. Raises InvalidSpec if the id is no valid directory name."""
        return cls(folder / check_identifier("savepoint", savepoint))

    @property
    def id(self) -> str:
        """The savepoint's id."""
        return str(self.root.name)

    begun = Below[DataPath]("root", "begun.json")
    """The record of its maker, start and batch: the first file of a savepoint, and the last to be deleted."""
    manifest = Below[DataPath]("root", "manifest.json")
    """The list of its contents. Written last: a savepoint without it is not complete."""
    failed = Below[DataPath]("root", "failed.json")
    condemned = Below[DataPath]("root", "condemned.json")
    """The marker of a savepoint to be deleted: no reader may begin to read it."""
    readers = Below[DataPath]("root", "readers")

    def reader(self, uid: str) -> DataPath:
        """Return the marker that exists while ``uid`` reads the savepoint."""
        return self.readers / f"{check_identifier('uid', uid)}.json"

    def part(self, name: str) -> DataPath:
        """Return the directory of one of its parts."""
        return self.root / name
