"""The DAGs of the repository as they are, but with a launcher that a test can hold up."""

from __future__ import annotations

from runpy import run_path
from typing import TYPE_CHECKING

from sessionizer_airflow.launching.by_connection import ConnectionLauncher
from sessionizer_airflow.operators import supervise_stream as operators
from support.faults.slow_launcher import SlowLauncher
from support.places import REPOSITORY

if TYPE_CHECKING:
    from sessionizer_airflow.project import Project


def slow_launcher(project: Project) -> SlowLauncher:
    return SlowLauncher(ConnectionLauncher(project=project))


# Each parse of this file, and each task, has a process of its own, so nothing else is changed by this.
vars(operators)["ConnectionLauncher"] = slow_launcher
for file in sorted((REPOSITORY / "dags").glob("*.py")):
    run_path(str(file))
