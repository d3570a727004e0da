"""The DAGs of the repository as they are, but with a launcher that a test can hold up."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

from sessionizer_airflow import operators
from sessionizer_airflow.launching.local import LocalLauncher
from slow_launcher import SlowLauncher

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer_airflow.argv import DriverCall


def slow_launcher(command_of: Callable[[DriverCall], list[str]]) -> SlowLauncher:
    return SlowLauncher(LocalLauncher(command_of))


# Each parse of this file, and each task, has a process of its own, so nothing else is changed by this.
vars(operators)["LocalLauncher"] = slow_launcher
for file in sorted((Path(__file__).parents[2] / "dags").glob("*.py")):
    run_path(str(file))
