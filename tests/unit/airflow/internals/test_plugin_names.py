"""Names of the plugin's modules: Airflow's loader gives each file that it finds its bare name in ``sys.modules``."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions

from sessionizer_airflow.project import SOURCE_ROOT

OPTIONAL = {"kubernetes", "pyspark", "hdfs", "boto3", "redis", "celery"}
"""Top-level packages that users of Airflow have, and the tests do not."""


def test_no_module_takes_the_name_of_another_package() -> None:
    names = {file.stem for file in (SOURCE_ROOT / "plugins").rglob("*.py")} - {"__init__"}
    taken = sys.stdlib_module_names | (packages_distributions().keys() - {"sessionizer_airflow"}) | OPTIONAL
    assert not names & taken
