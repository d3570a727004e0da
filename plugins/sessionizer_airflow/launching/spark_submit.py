"""The spark-submit command of a job, as the Spark provider would run it.

Arguments of ``jobs/main.py``: checked once here, built nowhere else.

Pure: no Airflow, no Spark. Secrets never appear in an argument vector, because any user of the machine can list it. The
driver reads them from its environment, under the names that the stream spec gives.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.home.names import check_identifier, check_name
from sessionizer.launch.driver_environment import DRIVER_MEMORY, LOCALE_VARIABLES, driver_environment
from sessionizer.launch.installation import PackageArchive, driver_python
from sessionizer_airflow.internals import built_command
from sessionizer_airflow.launching.connection import CONNECTION, SparkTarget

if TYPE_CHECKING:
    from sessionizer_airflow.project import Folders


CREDENTIAL_PREFIXES = ("AIRFLOW_", "_AIRFLOW", "__AIRFLOW")
PYTHONPATH = "PYTHONPATH"
OUR_PROGRAMS = str(Path(sys.executable).parent)


@dataclass(frozen=True, kw_only=True)
class SparkJob:
    """Python ``application`` with its ``arguments``, the folder of ``jars`` and the package that it needs.

    ``settings`` are Spark's. ``archive`` is the package for clusters that copy it to their machines.
    """

    name: str
    application: Path
    arguments: tuple[str, ...]
    jars: Path
    archive: PackageArchive
    settings: Mapping[str, str] = field(default_factory=dict)


def submit_command(
    job: SparkJob, connection: str = CONNECTION, environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Return the argument vector that starts ``job`` on the master that ``connection`` names.

    ``environment`` names the Python of the job. It is no field of the job, because a task keeps its job, and may be
    printed.

    Raises SparkConnectionMissing: Airflow does not know the connection.
    Raises UnusableConnection: it names a place where jobs cannot run.
    """
    target = SparkTarget.of(connection)
    options = target.options(job.jars, job.archive, environment)
    options["conf"] |= job.settings
    return built_command(connection, job.name, target.address(job.application), job.arguments, options)


def job_environment(environment: Mapping[str, str], named: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment of a driver on this machine: a part of ours, and the ``named`` variables of its spec.

    The programs of the drivers' Python come first, because Spark would start its workers with the first ``python3`` of
    the PATH.
    """
    python = driver_python(environment)
    path = os.pathsep.join([str(Path(python).parent), environment.get("PATH", os.defpath)])
    given = {**DRIVER_MEMORY, **driver_environment(environment, named)}
    return {**given, **LOCALE_VARIABLES, "PATH": path, "PYSPARK_PYTHON": python}


def submitter_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that talks to a cluster.

    The site's own programs come first, because our Python is not the cluster's. PYTHONPATH is removed, because YARN
    would pass it on, before all packages that a job brings along.
    """
    path = os.pathsep.join([environment.get("PATH", os.defpath), OUR_PROGRAMS])
    kept = {name: value for name, value in environment.items() if not name.startswith(CREDENTIAL_PREFIXES)}
    kept.pop(PYTHONPATH, None)
    return {**kept, **LOCALE_VARIABLES, "PATH": path}


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


def carry_out_argv(folders: Folders, stream: str, operation: str, *, only_plan: bool = False) -> tuple[str, ...]:
    """Return the arguments that carry an approved operation out, or only make its plan."""
    options = (check_identifier("operation", operation), *(("--plan",) if only_plan else ()))
    return _argv(folders, stream, "carry-out", options=options)


def _argv(folders: Folders, stream: str, *verb: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    return (*folders.list_global_options(), *verb, check_name("name", stream), *options, *folders.argv())
