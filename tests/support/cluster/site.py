"""A site with a YARN cluster: settings of Spark, and machines on which drivers and executors find themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]
import pytest
from upath import UPath

from sessionizer.control.records.process_records import read_launch
from sessionizer.home.roots import CONTROL_VARIABLE, HOME_VARIABLE
from sessionizer_airflow.launching.cluster import ConnectionLauncher
from sessionizer_airflow.launching.local import DriverTraces
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_demo.feed.generator import Row
from sessionizer_demo.local_airflow.api import wait_until
from support.cluster.machines import FRUGAL, Machine, write_spark_defaults
from support.expected.checkpoint_log import CheckpointLog
from support.expected.driver_statuses import Heard
from support.expected.landed import assert_as_defined
from support.places import REPOSITORY, SUPPORT
from support.processes.driver_process import QUICK_JVM, run_to_end
from support.processes.hadoop import Yarn
from support.processes.live_airflow import Platform
from support.processes.ports import command_of
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec


@dataclass
class ClusterStage:
    """A stream whose feed gets files of clicks from a test."""

    stage: Stage
    feed: UPath
    rows: dict[str, tuple[Row, ...]]
    made: Path
    fed: list[str] = field(default_factory=list)

    @classmethod
    def set_up(cls, root: Path, home: Path, data: str, control: str | None = None) -> ClusterStage:
        """Make it below ``data`` in HDFS, with the platform's ``home`` and a ``control`` root of its own."""
        feed = UPath(f"{data}/feed")
        feed.mkdir(parents=True)
        # a quiet moment of a slow machine must not move the watermark
        spec = clicks_spec(idle_after=None)
        spec["source"]["path"] = f"{data}/feed"
        stage = Stage.set_up(root, spec, home=home, data=f"{data}/platform", control=control)
        made = root / "made"
        return cls(stage, feed, dict(write_click_files(made, 30)), made)

    def bring(self, count: int) -> None:
        """The next ``count`` files, each complete before its name appears."""
        names = sorted(self.rows)[len(self.fed) :][:count]
        assert len(names) == count, "there are no more files"
        for name in names:
            hidden = self.feed / f".{name}.incomplete"
            hidden.write_bytes((self.made / name).read_bytes())
            hidden.rename(self.feed / name)
        self.fed += names

    def wait_until_all_is_in(self) -> None:
        wait_until(self._all_is_in, 240, f"{len(self.fed)} files in committed batches")

    def _all_is_in(self) -> bool:
        if self.stage.lineage is None:
            return False
        log = CheckpointLog(self.stage.checkpoint)
        committed = log.committed()
        return set(self.fed) <= {name for one in committed for name in one.files} and len(committed) == len(log.begun())

    def assert_exact(self) -> None:
        """Drain the stopped stream for good by a driver on this machine, and compare each table.

        Of a stream that is not drained something may still be due: a conflict that the next merge finds, a session.
        """
        run_to_end(self.stage, "drained")
        assert_as_defined(self.stage, self.files)

    @property
    def files(self) -> dict[str, tuple[Row, ...]]:
        return {name: self.rows[name] for name in self.fed}


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


DRIVER_SECONDS: Final = 240.0
"""For a container, its JVM and its first batch on a busy machine."""
STOPPED_SECONDS: Final = 120.0


def states(yarn: Yarn, uid: str) -> list[str]:
    found = yarn.asked(f"apps?applicationTags={uid}").get("apps") or {}
    return [app["state"] for app in found.get("app", [])]


def executors_see_no_control(home: Path, yarn: Yarn) -> None:
    """Fail if an executor or its Python workers see the control store, which the driver sees, or our package's source.

    ``home`` is the platform's.
    """
    seen = {process: names_in(Path(f"/proc/{process.pid}/root{home}")) for process in yarn.processes()}
    executors = [process for process in seen if is_executor(process)]
    assert executors
    family = {child for executor in executors for child in (executor, *executor.children(recursive=True))}
    assert any("pyspark" in " ".join(command_of(process)) for process in family), "Python workers"
    assert {process.pid for process in family if seen.get(process)} == set()
    assert any(seen.values()), "the driver"
    for executor in executors:
        path = executor.environ()["PYTHONPATH"]
        assert "sessionizer-" in path
        assert str(REPOSITORY / "jobs") not in path


def nobody_sees_the_home(platform: Platform, yarn: Yarn) -> None:
    """Neither the driver nor an executor, nor what they fork."""
    home = platform.installation.platform_home
    jvms = [process for process in yarn.processes() if is_executor(process) or is_driver(process)]
    family = {child for jvm in jvms for child in (jvm, *jvm.children(recursive=True))}
    assert any(is_driver(process) for process in family)
    assert any(is_executor(process) for process in family)
    assert {process.pid for process in family if names_in(Path(f"/proc/{process.pid}/root{home}"))} == set()


def is_executor(process: psutil.Process) -> bool:
    return _is_jvm_of(process, "YarnCoarseGrainedExecutorBackend")


def is_driver(process: psutil.Process) -> bool:
    return _is_jvm_of(process, "deploy.yarn.ApplicationMaster")


def _is_jvm_of(process: psutil.Process, main_class: str) -> bool:
    command = command_of(process)
    return main_class in " ".join(command) and command[0].endswith("java")


def names_in(folder: Path) -> list[str]:
    """None of a process that has just ended."""
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
