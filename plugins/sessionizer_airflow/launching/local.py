"""Drivers as processes of this machine, detached from the task that starts them."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Protocol

from sessionizer.causes.cause import Cause
from sessionizer.causes.table import CAUSES
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord, ProcessIdentity, identify, is_alive
from sessionizer.deployment.releases import InstalledRelease
from sessionizer.deployment.running_spec import list_named_variables
from sessionizer.errors import DriverOutOfReach, DriverWouldNotEnd, HomeNotShared, ProgramMissing
from sessionizer.home.clock import epoch_ms
from sessionizer.home.local_files import LOG_VARIABLE, open_log_file
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.scratch import scratch_environment
from sessionizer_airflow.launching.spark_submit import DriverCall, job_environment


@dataclass(frozen=True, kw_only=True)
class DriverTraces:
    """Traces by which driver ``uid`` is found: its launch, if it was launched from here, and its known processes."""

    uid: str
    launch: LaunchRecord | None = None
    processes: tuple[ProcessIdentity, ...] = ()

    @property
    def is_in_cluster(self) -> bool:
        """Whether it was submitted to a cluster from here."""
        return self.launch is not None and self.launch.submission is not None


@dataclass(frozen=True)
class DriverObservation:
    """Answer whether a driver lives (None: unknown), a line for users, and the ``cause`` that keeps it from work."""

    alive: bool | None
    said: str = ""
    cause: Cause | None = None


def cause_of_exit(codes: Iterable[str]) -> Cause | None:
    """Return the cause of a driver's end without exit record, by the exit ``codes`` of a cluster. None if unknown.

    A driver that does not see our home cannot write an exit record.
    """
    return CAUSES[HomeNotShared.__name__] if str(HomeNotShared.exit_code) in codes else None


class Launcher(Protocol):
    """Interface that starts drivers, which outlive the caller, and ends drivers that do not answer.

    Ending a driver only tidies up, because fencing its lease has taken its right to write before.
    """

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        """Start the driver, and record it. Raises SparkConnectionMissing, UnusableConnection, ProgramMissing."""

    def look_for(self, traces: DriverTraces) -> DriverObservation:
        """Ask the operating system or the cluster manager whether the driver lives. Raises ClusterUnreachable."""

    def last_words(self, traces: DriverTraces) -> list[str]:
        """Return the end of the driver's output that is not in its log, without credentials. Empty if there is none."""

    def end_by_force(self, traces: DriverTraces) -> None:
        """Kill the driver. Return when it is gone. Raises DriverWouldNotEnd, DriverOutOfReach, ClusterUnreachable."""


def start_detached(command: list[str], log: Path, environment: Mapping[str, str]) -> ProcessIdentity:
    """Start ``command`` in a new session, with everything that it prints appended to ``log``."""
    with open_log_file(log) as output:
        try:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
                cwd=log.parent,
            )
        except FileNotFoundError as error:
            raise ProgramMissing(command[0]) from error
    # A child that ends while we live stays a zombie until a thread waits for it.
    Thread(target=started.wait, name=f"reap-{started.pid}", daemon=True).start()
    return identify(started.pid) or ProcessIdentity(started.pid, None, os.uname().nodename)


@dataclass(frozen=True)
class LocalLauncher:
    """Launcher that runs a driver in a session of its own, so that no signal, terminal or end of ours reaches it.

    With a ``local[...]`` master the whole job is that process. With any other master in client mode only the driver is.
    ``release``: the environment of the driver, None for the default one. ``variables``: more variables for it, which
    may be secret.
    """

    command_of: Callable[[DriverCall], list[str]]
    release: InstalledRelease | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        """See ``Launcher.launch``."""
        command = self.command_of(call)
        home.prepare()
        home.prepare_own()
        python = None if self.release is None else str(self.release.python)
        log = home.driver_log(call.uid)
        launch = LaunchRecord(uid=call.uid, at=epoch_ms(), log=str(log), python=python)
        LAUNCH_FILE.of(home).write(launch)
        named = list_named_variables(home, call.folders.streams)
        given = os.environ if self.release is None else self.release.environment(os.environ)
        environment = {**job_environment(given, named), **self.variables, LOG_VARIABLE: launch.log}
        environment |= scratch_environment(environment)
        launch = launch.add_process(start_detached(command, log, environment))
        LAUNCH_FILE.of(home).write(launch)
        return launch

    def look_for(self, traces: DriverTraces) -> DriverObservation:
        """See ``Launcher.look_for``."""
        lives = [is_alive(process) for process in traces.processes]
        return DriverObservation(True if True in lives else None if None in lives else False)

    def last_words(self, traces: DriverTraces) -> list[str]:  # noqa: ARG002 - others need it
        """See ``Launcher.last_words``: all of it is in the log of its launch."""
        return []

    def end_by_force(self, traces: DriverTraces) -> None:
        """See ``Launcher.end_by_force``."""
        for process in traces.processes:
            end_process(process)


DEATH_LIMIT_SECONDS = 20.0
"""Longest wait for a killed process to end. It may be stuck in the kernel for a while (a slow disk)."""


def end_process(process: ProcessIdentity) -> None:
    """Kill a process and return when it is gone. Raises DriverWouldNotEnd, DriverOutOfReach."""
    if is_alive(process) is None:
        raise DriverOutOfReach(process.pid, process.host)
    kill(process)
    deadline = time.monotonic() + DEATH_LIMIT_SECONDS
    while is_alive(process):
        if time.monotonic() > deadline:
            raise DriverWouldNotEnd(f"process {process.pid}")
        time.sleep(0.1)


def kill(process: ProcessIdentity) -> None:
    """Send SIGKILL to the process, and to its group if it leads one: a JVM and its Python are then one group."""
    if not is_alive(process):
        return
    with suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
