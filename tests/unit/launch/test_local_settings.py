"""What a driver on this machine is started with is the same, whoever starts it; a cluster's is its own business."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from sessionizer.launch.driver_environment import PLAIN_SPARK
from sessionizer.launch.local_settings import WORKER_DAEMON, is_local, launch_settings, session_settings
from sessionizer.launch.package_archive import PackageArchive
from sessionizer_airflow.launching.connection import CONNECTION, SparkTarget

JARS = Path("/platform/jars")
ARCHIVE = PackageArchive(Path("/platform/jobs/sessionizer"), Path("/platform/home/packages"))


def options_on(master: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps({"conn_type": "spark", "host": master}))
    conf: dict[str, str] = SparkTarget.of(CONNECTION).options(JARS, ARCHIVE)["conf"]
    return conf


@pytest.mark.usefixtures("tuned")
def test_the_daemon_of_python_workers_is_a_module_of_ours() -> None:
    assert importlib.util.find_spec(WORKER_DAEMON) is not None
    assert launch_settings(JARS)["spark.python.daemon.module"] == WORKER_DAEMON


def test_on_the_public_way_spark_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLAIN_SPARK, "1")
    assert "spark.python.daemon.module" not in launch_settings(JARS)


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "local-cluster[2,1,1024]"])
def test_airflow_starts_a_local_driver_with_all_that_cannot_change_later(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_local(master)
    assert options_on(master, monkeypatch) == {
        **launch_settings(JARS),
        "spark.executorEnv.PYTHONPATH": "/platform/jobs",
    }


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn"])
def test_a_cluster_gets_none_of_them(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_local(master)
    assert not options_on(master, monkeypatch).keys() & {*launch_settings(JARS), *session_settings()}
