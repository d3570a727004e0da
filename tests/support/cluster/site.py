"""A site with a YARN cluster: settings of Spark, and machines on which drivers and executors find themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sessionizer.control.records.process_records import read_launch
from sessionizer.home.roots import CONTROL_VARIABLE, HOME_VARIABLE
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.local import DriverTraces
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from support.cluster.cluster_stage import ClusterStage
from support.cluster.machines import FRUGAL, Machine, write_spark_defaults
from support.expected.driver_statuses import Heard
from support.places import REPOSITORY, SUPPORT
from support.processes.driver_process import QUICK_JVM
from support.processes.hadoop import Yarn

HERE, APART = "here", "apart"
"""Where a cluster has its drivers and executors: on this host, or on others."""
DRIVERS_HOST, EXECUTORS_HOST = "worker-7", "worker-8"
SETTINGS = FRUGAL | {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


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
        return "spark.yarn.appMasterEnv.JAVA_HOME" in self.settings

    def but(self, settings: Mapping[str, str]) -> Site:
        return replace(self, settings={**self.settings, **settings})

    @property
    def environment(self) -> dict[str, str]:
        extra = {"deploy-mode": "cluster", "queue": "default"}
        return {
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}),
            "HADOOP_CONF_DIR": str(self.yarn.configuration),
            "SPARK_CONF_DIR": str(write_spark_defaults(self.folder / "spark-conf", self.settings)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": QUICK_JVM,
        }


PATIENT_ENOUGH = SupervisionPolicy(
    startup_grace_ms=90_000, stale_limit_ms=4_000, first_backoff_ms=300, longest_backoff_ms=1_000, restart_budget=3
)
BUSY_MACHINE = SupervisionPolicy(startup_grace_ms=180_000, stale_limit_ms=60_000)
"""Limits for drivers with Spark's work, which wait for a new executor."""


def supervisor_of_scripted_drivers(site: Site, folder: Path) -> Supervisor:
    """The application that brings the drivers is made in ``folder``, and is real."""
    application = folder / "application"
    application.mkdir()
    (application / "main.py").symlink_to(SUPPORT / "processes" / "scripted_driver.py")
    (application / "sessionizer").symlink_to(REPOSITORY / "jobs" / "sessionizer")
    project = Project(application=application / "main.py", streams=site.platform, jars=folder, home=site.platform)
    return supervisor_in(project, PATIENT_ENOUGH)


@contextmanager
def supervisor_of(clicks: ClusterStage, yarn: Yarn) -> Iterator[Supervisor]:
    """A supervisor that launches the drivers of ``clicks`` as Airflow does. The last of them is killed at the end."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in environment_of(clicks, yarn).items():
            environment.setenv(name, value)
        found = supervisor_in(Project.from_environment(), BUSY_MACHINE)
        yield found
        end_newest_driver(found)


def environment_of(clicks: ClusterStage, yarn: Yarn) -> dict[str, str]:
    """The variables that name the stream's folders and the cluster that its drivers run on."""
    stage = clicks.stage
    return {
        **Site.of(yarn, stage.root, stage.home, drivers_see_it=stage.control is None).environment,
        **({} if stage.control is None else {CONTROL_VARIABLE: stage.control}),
        HOME_VARIABLE: str(stage.home),
        "SESSIONIZER_STREAMS": str(stage.streams),
        "SESSIONIZER_DATA": stage.data or "",
    }


def supervisor_in(project: Project, policy: SupervisionPolicy) -> Supervisor:
    return Supervisor(
        home=project.home_of("clicks"),
        folders=project,
        launcher=ConnectionLauncher(project=project),
        policy=policy,
        say=Heard(),
    )


def end_newest_driver(supervisor: Supervisor) -> None:
    launch = read_launch(supervisor.home)
    if launch is not None:
        supervisor.launcher.end_by_force(DriverTraces(uid=launch.uid, launch=launch))
