"""The DAGs of the repository as they are, but with a launcher that a test can hold up."""

from runpy import run_path

from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.operators import supervise_stream as operators
from sessionizer_airflow.project import Project
from support.faults.slow_launcher import SlowLauncher
from support.places import REPOSITORY


def slow_launcher(project: Project) -> SlowLauncher:
    return SlowLauncher(ConnectionLauncher(project=project))


# Each parse of this file, and each task, has a process of its own, so nothing else is changed by this.
vars(operators)["ConnectionLauncher"] = slow_launcher
for file in sorted((REPOSITORY / "dags").glob("*.py")):
    run_path(str(file))
