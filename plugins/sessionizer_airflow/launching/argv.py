"""Arguments of ``jobs/main.py``: checked once here, built nowhere else.

Pure: no Airflow, no Spark. Secrets never appear in an argument vector, because any user of the machine can list it. The
driver reads them from its environment, under the names that the stream spec gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.errors import InvalidSpec
from sessionizer.home.data_root import is_uri
from sessionizer.home.names import checked_identifier, checked_name

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Folders of the platform, for a job. All are absolute, because a job's working directory is not ours.

    ``data``: the data root, a path or a URI. ``control``: the control root. Either is None if it is the home.
    """

    home: Path
    streams: Path
    data: str | None = None
    control: str | None = None

    def __post_init__(self) -> None:
        for field in ("home", "streams"):
            path: Path = getattr(self, field)
            if not path.is_absolute():
                raise InvalidSpec(field, str(path), "an absolute path")
        for field in ("data", "control"):
            root: str | None = getattr(self, field)
            if root is not None and not (is_uri(root) or root.startswith("/")):
                raise InvalidSpec(field, root, "an absolute path, or a URI")

    def list_global_options(self) -> tuple[str, ...]:
        """Return the options that precede every verb.

        They are passed because a job in a cluster has no environment of ours.
        """
        return () if self.control is None else ("--control", self.control)

    def argv(self) -> tuple[str, ...]:
        """Return the options that name the folders."""
        return ("--home", str(self.home), "--streams", str(self.streams), *self._data_option())

    def argv_without_streams(self) -> tuple[str, ...]:
        """Return the options without the folder of specs, for verbs of a stream that ran and keeps its spec."""
        return ("--home", str(self.home), *self._data_option())

    def _data_option(self) -> tuple[str, ...]:
        return () if self.data is None else ("--data", self.data)


@dataclass(frozen=True, kw_only=True)
class DriverCall:
    """Call that runs the stream's driver as ``uid``, the name by which it takes the lease and is watched."""

    stream: str
    uid: str
    folders: Folders

    def __post_init__(self) -> None:
        checked_name("name", self.stream)
        checked_identifier("uid", self.uid)

    def argv(self) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py``."""
        return (*self.folders.list_global_options(), "run", self.stream, "--uid", self.uid, *self.folders.argv())


@dataclass(frozen=True, kw_only=True)
class ReportCall:
    """Call that rebuilds the stream's ``sessions_daily`` from the sessions that have landed."""

    stream: str
    folders: Folders

    def __post_init__(self) -> None:
        checked_name("name", self.stream)

    def argv(self) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py``."""
        return (*self.folders.list_global_options(), "report", self.stream, *self.folders.argv())


@dataclass(frozen=True, kw_only=True)
class SavepointCall:
    """Call that makes a savepoint with the id ``savepoint`` of the stream's newest batch.

    ``why`` is kept for later readers.
    """

    stream: str
    savepoint: str
    why: str
    folders: Folders
    native: bool = False

    def __post_init__(self) -> None:
        checked_name("name", self.stream)
        checked_identifier("savepoint", self.savepoint)

    def argv(self) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py``."""
        of = (self.stream, "--id", self.savepoint, "--why", self.why, *(("--native",) if self.native else ()))
        return (*self.folders.list_global_options(), "savepoint", "create", *of, *self.folders.argv())


@dataclass(frozen=True, kw_only=True)
class StateCall:
    """Call of a ``verb`` that changes the state of ``stream``, with the ``options`` of its command as typed.

    ``reads_spec``: whether the verb reads the stream's file, and not only the stream's records.
    """

    verb: str
    stream: str
    savepoint: str | None
    options: tuple[str, ...]
    reads_spec: bool
    folders: Folders

    def __post_init__(self) -> None:
        checked_identifier("verb", self.verb)
        checked_name("name", self.stream)
        if self.savepoint is not None:
            checked_identifier("savepoint", self.savepoint)

    def planned(self, request: str) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py`` to make its plan and keep it as that of ``request``."""
        return self._argv("--keep-plan", checked_identifier("request", request))

    def approved(self, digest: str, by: str) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py`` to carry out the plan that ``by`` approved by its ``digest``."""
        return self._argv("--approve", checked_identifier("digest", digest), "--by", by)

    def _argv(self, *more: str) -> tuple[str, ...]:
        to = () if self.savepoint is None else (self.savepoint,)
        folders = self.folders.argv() if self.reads_spec else self.folders.argv_without_streams()
        return (*self.folders.list_global_options(), self.verb, self.stream, *to, *self.options, *more, *folders)
