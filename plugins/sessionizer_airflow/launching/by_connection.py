"""Launcher of drivers by the Spark connection: the only one that the operator uses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from sessionizer.control.records.process_records import LaunchRecord
from sessionizer.deployment.releases import InstalledRelease, release_for_next_start, require_release
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import has_own_python, jar_folder
from sessionizer.stream_spec.spec_folder import read_spec_file
from sessionizer_airflow.launching.cluster import ClusterLauncher, ClusterManager, KubernetesManager
from sessionizer_airflow.launching.connection import CONNECTION, Manager, SparkTarget, manager_of, store_variables
from sessionizer_airflow.launching.local import DriverObservation, DriverTraces, LocalLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall, SparkJob, submit_command
from sessionizer_airflow.launching.yarn import ResourceManager, YarnManager
from sessionizer_airflow.project import Project


@dataclass(frozen=True, kw_only=True)
class ConnectionLauncher:
    """Implementation of ``Launcher`` that reads the connection at each launch.

    It ends a driver where it launched it.
    """

    project: Project
    connection: str = CONNECTION

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        """See ``Launcher.launch``."""
        target = SparkTarget.of(self.connection)
        of_store = store_variables(target)
        if target.hands_on:
            self.project.archive.make()
        if target.is_in_cluster:
            return self._cluster(target.master, target.namespace).launch(home, call)
        release = release_for_next_start(home).release
        if release is None and not has_own_python():
            # The driver would refuse as well, but only after its JVM has started.
            require_release(home, read_spec_file(call.folders.streams, call.stream))
        return LocalLauncher(partial(self.command, release=release), release, of_store).launch(home, call)

    def look_for(self, traces: DriverTraces) -> DriverObservation:
        """See ``Launcher.look_for``."""
        return self._launcher_of(traces).look_for(traces)

    def last_words(self, traces: DriverTraces) -> list[str]:
        """See ``Launcher.last_words``."""
        return self._launcher_of(traces).last_words(traces)

    def end_by_force(self, traces: DriverTraces) -> None:
        """See ``Launcher.end_by_force``."""
        self._launcher_of(traces).end_by_force(traces)

    def command(
        self,
        call: DriverCall,
        settings: Mapping[str, str] | None = None,
        release: InstalledRelease | None = None,
    ) -> list[str]:
        """Return the command that is the driver in client mode, and submits it in cluster mode.

        ``release``: the environment of the driver, None for the default one.
        """
        environment = os.environ if release is None else release.environment(os.environ)
        job = SparkJob(
            name=f"{call.stream}.driver",
            application=self.project.application,
            arguments=call.argv(),
            jars=self.project.jars if release is None else jar_folder(environment),
            archive=self.project.archive,
            settings=settings or {},
        )
        return submit_command(job, self.connection, environment)

    def _launcher_of(self, traces: DriverTraces) -> ClusterLauncher | LocalLauncher:
        launch = traces.launch
        if launch is None or launch.submission is None or launch.master is None:
            return self._local
        return self._cluster(launch.master, launch.submission.partition(":")[0])

    @property
    def _local(self) -> LocalLauncher:
        return LocalLauncher(self.command)

    def _cluster(self, master: str, namespace: str | None) -> ClusterLauncher:
        return ClusterLauncher(self._manager(master, namespace), master, self.command)

    def _manager(self, master: str, namespace: str | None) -> ClusterManager:
        if manager_of(master) is Manager.KUBERNETES:
            return KubernetesManager(master, namespace, SparkTarget.of(self.connection).binary)
        return YarnManager(ResourceManager.of(SparkTarget.of(self.connection).resource_manager))
