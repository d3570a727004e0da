"""Drivers as processes of this machine, detached from the task that starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from sessionizer.control.bounded_log import LOG_VARIABLE
from sessionizer.control.clock import epoch_ms
from sessionizer.control.process_identity import ProcessIdentity, identify, is_alive
from sessionizer_airflow.errors import DriverOutOfReach, DriverWouldNotEnd, SparkSubmitMissing
from sessionizer_airflow.launching.launch_record import LaunchRecord, write_launch
from sessionizer_airflow.launching.spark_submit import job_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.control.stream_home import StreamHome
    from sessionizer_airflow.argv import DriverCall

DEATH_LIMIT_SECONDS = 20.0
"""A killed process may be stuck in the kernel for a while (a slow disk), but not for ever."""


@dataclass(frozen=True)
class LocalLauncher:
    """Runs the command of a driver in a session of its own: no signal, terminal or end of ours reaches it.

    With a `local[...]` master the whole job is that process; with `spark://` or YARN in client mode its driver is.
    """

    command_of: Callable[[DriverCall], list[str]]

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        """See `Launcher.launch`."""
        command = self.command_of(call)
        home.prepare()
        launch = LaunchRecord(uid=call.uid, at=epoch_ms(), log=str(home.logs / f"driver.{call.uid}.log"))
        write_launch(home, launch)
        launch = launch.of_process(start_detached(command, Path(launch.log)))
        write_launch(home, launch)
        return launch

    def end_by_force(self, process: ProcessIdentity) -> None:
        """See `Launcher.end_by_force`."""
        if is_alive(process) is None:
            raise DriverOutOfReach(process.pid, process.host)
        kill(process)
        deadline = time.monotonic() + DEATH_LIMIT_SECONDS
        while is_alive(process):
            if time.monotonic() > deadline:
                raise DriverWouldNotEnd(process.pid)
            time.sleep(0.1)


def start_detached(command: list[str], log: Path) -> ProcessIdentity:
    """Start `command` in a new session, with everything that it prints appended to `log`."""
    with log.open("ab") as output:
        try:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**job_environment(os.environ), LOG_VARIABLE: str(log)},
                cwd=log.parent,
            )
        except FileNotFoundError as error:
            raise SparkSubmitMissing(command[0]) from error
    # Should it end while we live, somebody has to take note, or it stays a zombie.
    Thread(target=started.wait, name=f"reap-{started.pid}", daemon=True).start()
    return identify(started.pid) or ProcessIdentity(started.pid, None, os.uname().nodename)


def kill(process: ProcessIdentity) -> None:
    """SIGKILL the process, and its group when it leads one: then a JVM and its Python are one group of their own."""
    if not is_alive(process):
        return
    with suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            os.kill(process.pid, signal.SIGKILL)
