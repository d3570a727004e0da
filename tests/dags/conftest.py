"""All DAGs as Airflow parses them, over the specs of the repository and a made-up platform."""

import os
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from support.places import REPOSITORY

# no limit of its own: Airflow's 30 s are few on a busy machine, where the first file imports the providers
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "0"


@pytest.fixture(scope="session")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jars")
    for name in ("delta.jar", "kafka.jar"):
        (folder / name).touch()
    return folder


@pytest.fixture(scope="session")
def dag_bag(jars: Path) -> DagBag:
    # No longer than the parsing takes: the fixture lives on, and so would the variables, for every test to come.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SESSIONIZER_HOME", "/platform")
        patch.setenv("SESSIONIZER_JARS", str(jars))
        patch.setenv("SESSIONIZER_ERASE_REQUESTS", "/data/requests")
        return DagBag(str(REPOSITORY / "dags"))
