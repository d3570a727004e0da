"""A site with a YARN cluster: settings of Spark, and machines on which drivers and executors find themselves."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from support.cluster.machines import Machine, write_spark_defaults
from support.processes.driver_process import QUICK_JVM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.processes.yarn import Yarn

CONNECTION = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster", "queue": "default"}}
HERE, APART = "here", "apart"
"""Where a cluster has its drivers and executors: on this host, or on others."""
DRIVERS_HOST, EXECUTORS_HOST = "worker-7", "worker-8"
SETTINGS = {
    "spark.driver.memory": "800m",
    "spark.executor.memory": "800m",
    "spark.executor.instances": "1",
    "spark.executor.cores": "2",
    "spark.pyspark.python": sys.executable,
    "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass(frozen=True)
class Site:
    """What Airflow's processes have in their environment; ``platform`` is the home, which no executor sees.

    ``settings`` are Spark's, written into ``folder``.
    """

    yarn: Yarn
    platform: Path
    folder: Path
    settings: Mapping[str, str]

    @classmethod
    def of(cls, yarn: Yarn, folder: Path, platform: Path, *, apart: bool = True, drivers_see_it: bool = True) -> Site:
        """``apart``: drivers and executors are on hosts of their own, and the executors' sees nothing of ours.

        ``drivers_see_it``: the drivers' sees the platform's home.
        """
        if not apart:
            return cls(yarn, platform, folder, SETTINGS)
        machines, unseen = folder / "machines", () if drivers_see_it else (platform,)
        hosts = {
            "spark.yarn.appMasterEnv.JAVA_HOME": str(Machine(DRIVERS_HOST, unseen).java_home(machines)),
            "spark.executorEnv.JAVA_HOME": str(Machine(EXECUTORS_HOST, (platform,)).java_home(machines)),
        }
        return cls(yarn, platform, folder, SETTINGS | hosts)

    @property
    def apart(self) -> bool:
        """Whether drivers have a host of their own."""
        return "spark.yarn.appMasterEnv.JAVA_HOME" in self.settings

    def but(self, settings: Mapping[str, str]) -> Site:
        """The same site with other settings of Spark."""
        return replace(self, settings={**self.settings, **settings})

    @property
    def environment(self) -> dict[str, str]:
        """With the settings in their file."""
        return {
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(CONNECTION),
            "HADOOP_CONF_DIR": str(self.yarn.configuration),
            "SPARK_CONF_DIR": str(write_spark_defaults(self.folder / "spark-conf", self.settings)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": QUICK_JVM,
        }
