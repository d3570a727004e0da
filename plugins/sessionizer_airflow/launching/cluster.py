"""Drivers that a cluster runs, and the launcher that chooses between a cluster and this machine by the connection.

A driver in a cluster is submitted from here, then observed and killed through the cluster's manager.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sessionizer.causes.table import CAUSES
from sessionizer.control.log_tail import fit_to_show
from sessionizer.control.records.process_records import LAUNCH_FILE, SUBMITTED, LaunchRecord, is_alive
from sessionizer.deployment.releases import InstalledRelease, release_for_next_start, require_release
from sessionizer.errors import ClusterUnreachable, DriverWouldNotEnd, ProgramMissing
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import has_own_python, jar_folder
from sessionizer.stream_spec.spec_folder import read_spec_file
from sessionizer_airflow.internals import built_command
from sessionizer_airflow.launching.local import (
    DriverObservation,
    DriverTraces,
    LocalLauncher,
    cause_of_exit,
    end_process,
    start_detached,
)
from sessionizer_airflow.launching.spark_submit import (
    CONNECTION,
    DRIVER_VARIABLES,
    DriverCall,
    Manager,
    SparkTarget,
    manager_of,
    store_variables,
    submitter_environment,
)
from sessionizer_airflow.launching.yarn import YarnManager
from sessionizer_airflow.project import Project

ANSWER_LIMIT_SECONDS = 60.0
"""Timeout of a manager's program. It is a JVM that takes seconds to start, and retries on its own."""
DEATH_LIMIT_SECONDS = 90.0
"""Longest wait for a killed driver to end. Kubernetes grants a pod 30 s, YARN is quicker."""


class ClusterManager(Protocol):
    """Interface to the differences between clusters."""

    def submission(self, uid: str) -> str:
        """Return the name under which the manager knows driver ``uid``, known before the driver is submitted."""

    def settings(self, submission: str) -> dict[str, str]:
        """Return the Spark settings by which a driver has this name and is not restarted, without a wait for it."""

    def look_for(self, submission: str) -> DriverObservation:
        """Return the manager's answer about the driver. Raises ClusterUnreachable."""

    def last_words(self, submission: str) -> list[str]:
        """Return the end of the driver's output, if the manager has it. Raises ClusterUnreachable."""

    def kill(self, submission: str) -> None:
        """Ask the manager to kill the driver, if it exists. Raises ClusterUnreachable."""


@dataclass(frozen=True)
class ClusterLauncher:
    """Launcher that submits drivers to a cluster, by a process that is detached, too: uploads may take long."""

    manager: ClusterManager
    master: str
    command_of: Callable[[DriverCall, Mapping[str, str]], list[str]]
    """The command that submits a driver with further Spark settings."""

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        """See ``Launcher.launch``."""
        submission = self.manager.submission(call.uid)
        command = self.command_of(call, self.manager.settings(submission))
        environment = submitter_environment(os.environ)
        if shutil.which(command[0], path=environment["PATH"]) is None:
            raise ProgramMissing(command[0])
        home.prepare()
        home.prepare_own()
        log = home.driver_log(call.uid)
        launch = LaunchRecord(uid=call.uid, at=epoch_ms(), log=str(log), master=self.master, submission=submission)
        LAUNCH_FILE.of(home).write(launch)
        noting_the_exit = ["/bin/sh", "-c", '"$@"; echo $? >"$0"', str(home.submission(call.uid)), *command]
        launch = launch.add_process(start_detached(noting_the_exit, log, environment))
        LAUNCH_FILE.of(home).write(launch)
        return launch

    def look_for(self, traces: DriverTraces) -> DriverObservation:
        """See ``Launcher.look_for``."""
        return self.manager.look_for(self._submission(traces))

    def last_words(self, traces: DriverTraces) -> list[str]:
        """See ``Launcher.last_words``."""
        with suppress(ClusterUnreachable, ProgramMissing):
            return fit_to_show("\n".join(self.manager.last_words(self._submission(traces))))
        return []

    def end_by_force(self, traces: DriverTraces) -> None:
        """See ``Launcher.end_by_force``."""
        submission = self._submission(traces)
        for process in traces.processes:
            # A process that still submits would start the driver after the kill.
            if is_alive(process):
                end_process(process)
        self.manager.kill(submission)
        deadline = time.monotonic() + DEATH_LIMIT_SECONDS
        while self.manager.look_for(submission).alive:
            if time.monotonic() > deadline:
                raise DriverWouldNotEnd(submission)
            time.sleep(3)

    def _submission(self, traces: DriverTraces) -> str:
        recorded = traces.launch.submission if traces.launch else None
        return recorded or self.manager.submission(traces.uid)


def run_program(command: list[str]) -> str:
    """Run a program of the cluster manager and return its output. Raises ClusterUnreachable, ProgramMissing."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=ANSWER_LIMIT_SECONDS,
            env=submitter_environment(os.environ),
        )
    except FileNotFoundError as error:
        raise ProgramMissing(command[0]) from error
    except subprocess.TimeoutExpired as error:
        raise ClusterUnreachable(tuple(command), f"nothing for {ANSWER_LIMIT_SECONDS:.0f} s") from error
    printed = done.stdout + done.stderr
    if done.returncode != 0:
        raise ClusterUnreachable(tuple(command), find_cause(printed) or f"exit code {done.returncode}")
    return printed


def find_cause(printed: str) -> str:
    """Return the line in the output of a Java program that says most about its failure: its last, innermost cause."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("Caused by:", 'Exception in thread "'))]
    return (causes or lines or [""])[-1]


LIVE_PHASES = frozenset({"Pending", "Running", "Unknown"})
PHASE = re.compile(r"^\s*phase: (\w+)", re.MULTILINE)
STATE = re.compile(r"^\s*(?:container state|termination reason): (.+)$", re.MULTILINE)
EXIT_CODE = re.compile(r"^\s*exit code: (\d+)$", re.MULTILINE)
ABSENT = re.compile(r"^(?:Application not found|No applications found)\.", re.MULTILINE)


@dataclass(frozen=True)
class KubernetesManager:
    """Implementation of ``ClusterManager`` for pods. A submission is ``namespace:pod``, as spark-submit calls it."""

    master: str
    namespace: str | None
    binary: str = "spark-submit"

    def submission(self, uid: str) -> str:
        """See ``ClusterManager``."""
        return f"{self.namespace}:sessionizer-{uid}"

    def settings(self, submission: str) -> dict[str, str]:
        """See ``ClusterManager``. Spark never starts a pod a second time."""
        pod = submission.partition(":")[2]
        return {
            "spark.kubernetes.submission.waitAppCompletion": "false",
            "spark.kubernetes.driver.pod.name": pod,
            f"{DRIVER_VARIABLES[Manager.KUBERNETES]}{SUBMITTED}": "1",
            "spark.kubernetes.driver.label.sessionizer-driver": pod.removeprefix("sessionizer-"),
        }

    def look_for(self, submission: str) -> DriverObservation:
        """See ``ClusterManager``."""
        command = [self.binary, "--master", self.master, "--status", submission]
        found = parse_pod_status(run_program(command))
        if found is None:
            raise ClusterUnreachable(tuple(command), "the answer tells no phase")
        return found

    def last_words(self, submission: str) -> list[str]:  # noqa: ARG002 - others need it
        """Return nothing: only kubectl can read a pod's log, and we do not run it. See ``ClusterManager``."""
        return []

    def kill(self, submission: str) -> None:
        """See ``ClusterManager``. Kubernetes then deletes the pods of its executors. An absent pod is no error."""
        run_program([self.binary, "--master", self.master, "--kill", submission])


def parse_pod_status(printed: str) -> DriverObservation | None:
    """Parse the answer of ``spark-submit --status``. Return None if it names no pod."""
    phase = PHASE.search(printed)
    if phase is None:
        return DriverObservation(alive=False, said="Kubernetes knows no pod of it") if ABSENT.search(printed) else None
    details = ", ".join(STATE.findall(printed))
    said = f"Kubernetes says that its pod is {phase[1]}" + (f" ({details})" if details else "")
    # A pod that is not scheduled on a machine has no containers.
    waits = phase[1] == "Pending" and not details
    cause = CAUSES["no_resources"] if waits else cause_of_exit(EXIT_CODE.findall(printed))
    return DriverObservation(alive=phase[1] in LIVE_PHASES, said=said, cause=cause)


@dataclass(frozen=True, kw_only=True)
class ConnectionLauncher:
    """Launcher that reads the connection at each launch, and ends a driver where it launched it."""

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
        self, call: DriverCall, settings: Mapping[str, str] | None = None, release: InstalledRelease | None = None
    ) -> list[str]:
        """Return the command that is the driver, or submits it in cluster mode. ``release``: its environment."""
        environment = os.environ if release is None else release.environment(os.environ)
        jars = self.project.jars if release is None else jar_folder(environment)
        target = SparkTarget.of(self.connection)
        options = target.options(jars, self.project.archive, environment)
        options["conf"] |= settings or {}
        application = target.address(self.project.application)
        return built_command(self.connection, f"{call.stream}.driver", application, call.argv(), options)

    def _launcher_of(self, traces: DriverTraces) -> ClusterLauncher | LocalLauncher:
        launch = traces.launch
        if launch is None or launch.submission is None or launch.master is None:
            return LocalLauncher(self.command)
        return self._cluster(launch.master, launch.submission.partition(":")[0])

    def _cluster(self, master: str, namespace: str | None) -> ClusterLauncher:
        target, manager = SparkTarget.of(self.connection), None
        if manager_of(master) is Manager.KUBERNETES:
            manager = KubernetesManager(master, namespace, target.binary)
        return ClusterLauncher(manager or YarnManager.of(target.resource_manager), master, self.command)
