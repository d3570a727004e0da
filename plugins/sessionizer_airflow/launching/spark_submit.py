"""The spark-submit command of a job, as the Spark provider would run it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowNotFoundException

from sessionizer_airflow.errors import DriverElsewhere, SparkConnectionMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer_airflow.argv import DriverCall
    from sessionizer_airflow.project import Project

CONNECTION = "spark_default"
CREDENTIAL_PREFIXES = ("AIRFLOW_", "_AIRFLOW", "__AIRFLOW")


@dataclass(frozen=True, kw_only=True)
class SparkJob:
    """`application` (a Python file) with its `arguments` and the folder of `jars` that it needs."""

    name: str
    application: Path
    arguments: tuple[str, ...]
    jars: Path


@dataclass(frozen=True, kw_only=True)
class SparkTarget:
    """Where Spark runs, as the connection says: `master` and, if given, `deploy_mode`."""

    master: str
    deploy_mode: str | None

    @classmethod
    def of(cls, connection: str) -> SparkTarget:
        """:raises SparkConnectionMissing: the hook itself would fall back to YARN without a word."""
        try:
            found = SparkSubmitHook.get_connection(connection)
        except AirflowNotFoundException as error:
            raise SparkConnectionMissing(connection) from error
        return cls(master=found.host or found.conn_type or "", deploy_mode=found.extra_dejson.get("deploy-mode"))

    def options(self, jars: Path) -> dict[str, Any]:
        """How jars and Python reach the job: on this machine it finds ours, elsewhere the jars are sent along."""
        if self.master.startswith("local"):
            python = {"PYSPARK_PYTHON": sys.executable}
            return {"driver_class_path": f"{jars}/*", "jars": None, "env_vars": python}
        files = ",".join(sorted(map(str, jars.glob("*.jar"))))
        return {"driver_class_path": None, "jars": files or None, "env_vars": None}


@dataclass(frozen=True, kw_only=True)
class ClientModeDriver:
    """The command of a stream's driver that runs where spark-submit does.

    :raises DriverElsewhere: when called for a connection in cluster mode, whose driver is no process of ours.
    """

    project: Project
    connection: str = CONNECTION

    def __call__(self, call: DriverCall) -> list[str]:
        """The argument vector for `call`."""
        if SparkTarget.of(self.connection).deploy_mode == "cluster":
            raise DriverElsewhere(self.connection)
        job = SparkJob(
            name=f"{call.stream}.driver",
            application=self.project.application,
            arguments=call.argv(),
            jars=self.project.jars,
        )
        return submit_command(job, self.connection)


def submit_command(job: SparkJob, connection: str = CONNECTION) -> list[str]:
    """The argument vector that starts `job` on the master that `connection` names.

    The provider keeps the building of the command to itself; using it all the same keeps ours the same as that of
    every SparkSubmitOperator, for every kind of master. The golden files notice when it changes.

    :raises SparkConnectionMissing: Airflow does not know the connection.
    """
    options = SparkTarget.of(connection).options(job.jars)
    hook = SparkSubmitHook(conn_id=connection, name=job.name, application_args=list(job.arguments), **options)
    return hook._build_spark_submit_command(str(job.application))  # noqa: SLF001 - see above


def job_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a detached job: ours without Airflow's credentials, with the programs of our Python first.

    Spark would otherwise start its Python workers with the first `python3` of the PATH.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith(CREDENTIAL_PREFIXES)}
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([programs, environment.get("PATH", os.defpath)])
    return {**kept, "PATH": path, "PYSPARK_PYTHON": sys.executable}
