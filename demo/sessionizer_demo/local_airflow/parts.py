"""The four processes of a local Airflow. Each can be ended and started again on its own."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

from sessionizer_demo.local_airflow.installation import LOOPBACK, MARK, Installation

if TYPE_CHECKING:
    from collections.abc import Iterable

ENDING_SECONDS = 15.0
"""Seconds that a part may take to end before it is killed."""


@dataclass
class Parts:
    """The running ``airflow <part>`` processes. The output of each goes to ``<part>.log``."""

    installation: Installation
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)

    def _commands(self) -> dict[str, list[str]]:
        port = str(self.installation.port)
        return {
            "api-server": ["airflow", "api-server", "--host", LOOPBACK, "--port", port, "--workers", "1"],
            # The log servers of these two would listen on every address. They are not needed, as one disk has all logs.
            "scheduler": ["airflow", "scheduler", "--skip-serve-logs"],
            "triggerer": ["airflow", "triggerer", "--skip-serve-logs"],
            "dag-processor": ["airflow", "dag-processor"],
        }

    def start_all(self) -> None:
        """Prepare the database, then start every part."""
        self.installation.prepare()
        self.migrate()
        for name in self._commands():
            self.start(name)

    def migrate(self) -> None:
        """Create or upgrade the database, which also writes the configuration that the parts share."""
        with (self.installation.logs / "migrate.log").open("ab") as output:
            subprocess.run(
                ["airflow", "db", "migrate"],  # noqa: S607 - of the environment's own PATH
                env=self.installation.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=True,
            )
        # Kept in the file: a reader no longer waits for a writer, nor a writer for readers.
        with closing(sqlite3.connect(self.installation.database)) as database:
            database.execute("PRAGMA journal_mode=WAL")

    def start(self, name: str) -> None:
        """Start one part."""
        with (self.installation.logs / f"{name}.log").open("ab") as output:
            self.running[name] = subprocess.Popen(
                self._commands()[name],
                env=self.installation.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C in our terminal must reach only us, because we end the parts in order.
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Send SIGKILL to the part and the processes it started, except drivers.

        The machine's own memory killer would leave less order.
        """
        part = self.running.pop(name)
        end_processes(family(part.pid), seconds=0.0)
        part.wait()

    def kill_all(self) -> None:
        """Send SIGKILL to every part at one moment, like a power cut."""
        end_processes([process for part in self.running.values() for process in family(part.pid)], seconds=0.0)
        for part in self.running.values():
            part.wait()
        self.running.clear()

    def dead(self) -> list[str]:
        """Return the parts that have ended without a request to stop."""
        return [name for name, part in self.running.items() if part.poll() is not None]

    def stop_all(self) -> None:
        """End every part and the processes that they started, except drivers, which outlive Airflow."""
        families = [process for part in self.running.values() for process in family(part.pid)]
        end_processes(families, seconds=ENDING_SECONDS)
        for part in self.running.values():
            part.wait()
        self.running.clear()


def family(pid: int) -> list[psutil.Process]:
    """Return the process and its descendants, except drivers, which have a session of their own and outlive us."""
    try:
        parent, session = psutil.Process(pid), os.getsid(pid)
        return [parent, *(child for child in parent.children(recursive=True) if _session_of(child) == session)]
    except (psutil.NoSuchProcess, ProcessLookupError):
        return []


def _session_of(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


def end_processes(processes: Iterable[psutil.Process], *, seconds: float) -> None:
    """Ask the processes to end, and kill the remaining ones after ``seconds``. With 0 all are killed at once."""
    waiting = list(processes)
    if seconds > 0:
        _send(waiting, signal.SIGTERM)
        _, waiting = psutil.wait_procs(waiting, timeout=seconds)
    _send(waiting, signal.SIGKILL)
    psutil.wait_procs(waiting, timeout=ENDING_SECONDS)


def _send(processes: Iterable[psutil.Process], sent: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(sent)
        except psutil.NoSuchProcess:
            continue


def left_behind(installation: Installation) -> list[psutil.Process]:
    """Return every process that still carries the installation's mark, even if its parent has ended."""
    return [process for process in psutil.process_iter() if _carries(process, str(installation.root))]


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(MARK) == mark) and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False
