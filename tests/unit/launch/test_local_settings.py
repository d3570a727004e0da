"""What a driver on this machine is started with is the same, whoever starts it; a cluster's is its own business."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessionizer.launch.local_settings import is_local_master, launch_settings, session_settings
from sessionizer.launch.package_archive import PackageArchive
from sessionizer_airflow.launching.connection import CONNECTION, SparkTarget

JARS = Path("/platform/jars")
ARCHIVE = PackageArchive(Path("/platform/jobs/sessionizer"), Path("/platform/home/packages"))


def options_on(master: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps({"conn_type": "spark", "host": master}))
    conf: dict[str, str] = SparkTarget.of(CONNECTION).options(JARS, ARCHIVE)["conf"]
    return conf


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "local-cluster[2,1,1024]"])
def test_airflow_starts_a_local_driver_with_all_that_cannot_change_later(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_local_master(master)
    assert options_on(master, monkeypatch) == {
        **launch_settings(JARS),
        "spark.executorEnv.PYTHONPATH": "/platform/jobs",
    }


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn"])
def test_a_cluster_gets_none_of_them(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_local_master(master)
    assert not options_on(master, monkeypatch).keys() & {*launch_settings(JARS), *session_settings()}
