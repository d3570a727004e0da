"""A site with a YARN cluster: settings of Spark, and machines on which drivers and executors find themselves."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from support.processes.cluster_machines import Machine, write_spark_defaults

if TYPE_CHECKING:
    from support.processes.yarn import Yarn

CONNECTION = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster", "queue": "default"}}
DRIVERS_HOST, EXECUTORS_HOST = "worker-7", "worker-8"


@dataclass(frozen=True)
class Site:
    """What Airflow's processes have in their environment; ``platform`` is the home, which no executor sees."""

    yarn: Yarn
    platform: Path
    environment: dict[str, str]


@pytest.fixture
def site(yarn: Yarn, tmp_path: Path) -> Site:
    platform = tmp_path / "platform"
    platform.mkdir()
    return site_of(yarn, tmp_path, platform)


def site_of(yarn: Yarn, folder: Path, platform: Path) -> Site:
    """Settings in ``folder``. Drivers and executors are on hosts of their own; the executors' sees nothing of ours."""
    machines = folder / "machines"
    driver = Machine(DRIVERS_HOST).java_home(machines)
    executor = Machine(EXECUTORS_HOST, (platform,)).java_home(machines)
    settings = {
        "spark.driver.memory": "800m",
        "spark.executor.memory": "800m",
        "spark.executor.instances": "1",
        "spark.executor.cores": "2",
        "spark.pyspark.python": sys.executable,
        "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
        "spark.yarn.appMasterEnv.JAVA_HOME": str(driver),
        "spark.executorEnv.JAVA_HOME": str(executor),
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    return Site(
        yarn,
        platform,
        {
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(CONNECTION),
            "HADOOP_CONF_DIR": str(yarn.configuration),
            "SPARK_CONF_DIR": str(write_spark_defaults(folder / "spark-conf", settings)),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
