"""Arguments of ``jobs/main.py``: checked once here, built nowhere else.

Pure: no Airflow, no Spark. Secrets never appear in an argument vector, because any user of the machine can list it. The
driver reads them from its environment, under the names that the stream spec gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.names import check_identifier, check_name

if TYPE_CHECKING:
    from sessionizer_airflow.project import Folders


@dataclass(frozen=True, kw_only=True)
class DriverCall:
    """Call that runs the stream's driver as ``uid``, the name by which it takes the lease and is watched."""

    stream: str
    uid: str
    folders: Folders

    def __post_init__(self) -> None:
        check_name("name", self.stream)
        check_identifier("uid", self.uid)

    def argv(self) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py``."""
        return _argv(self.folders, self.stream, "run", options=("--uid", self.uid))


def report_argv(folders: Folders, stream: str) -> tuple[str, ...]:
    """Return the arguments that rebuild the stream's ``sessions_daily`` from the sessions that have landed."""
    return _argv(folders, stream, "report")


def compaction_argv(folders: Folders, stream: str) -> tuple[str, ...]:
    """Return the arguments that compact the stream's tables."""
    return _argv(folders, stream, "compact", options=("--yes",))


def savepoint_argv(folders: Folders, stream: str, savepoint: str, *, why: str, native: bool = False) -> tuple[str, ...]:
    """Return the arguments that make a savepoint with the id ``savepoint`` of the stream's newest batch.

    ``why`` is kept for later readers.
    """
    options = ("--id", check_identifier("savepoint", savepoint), "--why", why, *(("--native",) if native else ()))
    return _argv(folders, stream, "savepoint", "create", options=options)


def _argv(folders: Folders, stream: str, *verb: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    return (*folders.list_global_options(), *verb, check_name("name", stream), *options, *folders.argv())


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
        check_identifier("verb", self.verb)
        check_name("name", self.stream)
        if self.savepoint is not None:
            check_identifier("savepoint", self.savepoint)

    def planned(self, request: str) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py`` to make its plan and keep it as that of ``request``."""
        return self._argv("--keep-plan", check_identifier("request", request))

    def approved(self, digest: str, by: str) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py`` to carry out the plan that ``by`` approved by its ``digest``."""
        return self._argv("--approve", check_identifier("digest", digest), "--by", by)

    def _argv(self, *more: str) -> tuple[str, ...]:
        to = () if self.savepoint is None else (self.savepoint,)
        folders = self.folders.argv() if self.reads_spec else self.folders.argv_without_streams()
        return (*self.folders.list_global_options(), self.verb, self.stream, *to, *self.options, *more, *folders)
