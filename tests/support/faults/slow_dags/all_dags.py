"""The DAGs of the repository as they are, but with a launcher that a test can hold up."""

from runpy import run_path

from sessionizer_airflow.operators import supervise_stream as operators
from support.faults.slow_launcher import SlowLauncher
from support.places import REPOSITORY

# Each parse of this file, and each task, has a process of its own, so nothing else is changed by this.
vars(operators)["ConnectionLauncher"] = SlowLauncher
for file in sorted((REPOSITORY / "dags").glob("*.py")):
    run_path(str(file))
