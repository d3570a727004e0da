"""The folders of a local Airflow and the environment of its processes."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sessionizer_demo.places import JARS, REPOSITORY

LOOPBACK = "127.0.0.1"
USER = "admin"
LOCK_SECONDS = 60
"""Seconds that a part of Airflow waits for another one's write into SQLite. With Python's own 5 a scheduler ended with
"database is locked" on a slow machine, as its first tasks began."""
MARK = "SESSIONIZER_INSTALLATION"
"""Environment variable that every process of an installation inherits. The end of the demo finds them all by it."""


POOLS = {"SESSIONIZER_REPORT_POOL": "reports", "SESSIONIZER_COMMAND_POOL": "commands"}
"""Pools of the demo's jobs, one slot each, by their settings. They leave workers to supervision."""


def free_port() -> int:
    """Return a free port of the loopback interface that the system gives to no connection before it is used."""
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range")
    end = int(ephemeral.read_text().split()[0]) if ephemeral.exists() else 32_768
    while True:
        port = 15_000 + secrets.randbelow(end - 15_000)
        with suppress(OSError), socket.create_server((LOOPBACK, port)):
            return port


@dataclass(frozen=True, kw_only=True)
class Installation:
    """An Airflow under ``root``, its API server at ``port``. ``settings`` are further environment variables."""

    root: Path
    port: int = field(default_factory=free_port)
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def _airflow_home(self) -> Path:
        return self.root / "airflow"

    @property
    def database(self) -> Path:
        """The SQLite file of this Airflow."""
        return self._airflow_home / "airflow.db"

    @property
    def platform_home(self) -> Path:
        """The ``SESSIONIZER_HOME`` of this installation."""
        return self.root / "sessionizer"

    @property
    def logs(self) -> Path:
        """Folder of the output of its processes."""
        return self.root / "logs"

    @property
    def address(self) -> str:
        """URL of the UI and the API."""
        return f"http://{LOOPBACK}:{self.port}"

    def prepare(self) -> None:
        """Create the folders and the password file, which only our user can read."""
        for folder in (self._airflow_home, self.platform_home, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        passwords = self._password_file
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({USER: self.password}) + "\n")

    @property
    def _password_file(self) -> Path:
        return self._airflow_home / "passwords.json"

    def environment(self) -> dict[str, str]:
        """Return the environment of all its processes. A Spark connection in our own environment is kept."""
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        spark = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"})}
        return {**spark, **os.environ, "PATH": programs, **self._platform(), **self._airflow(), **self.settings}

    def _platform(self) -> dict[str, str]:
        return {
            MARK: str(self.root),
            # Airflow's servers and workers rename themselves, which would overwrite the mark with their title.
            "SPT_NOENV": "1",
            "SESSIONIZER_HOME": str(self.platform_home),
            "SESSIONIZER_JARS": os.environ.get("SESSIONIZER_JARS", str(JARS)),
            "PYTHONPATH": os.pathsep.join(str(REPOSITORY / part) for part in ("jobs", "plugins", "demo")),
            # Spark's own ports, the UI of a driver among them, else listen on every address.
            "SPARK_LOCAL_IP": LOOPBACK,
        }

    def _airflow(self) -> dict[str, str]:
        return {
            "AIRFLOW_HOME": str(self._airflow_home),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.database}?timeout={LOCK_SECONDS}",
            "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            # The executor forks all its workers at once. Each costs memory, and two cores run few Spark jobs.
            "AIRFLOW__CORE__PARALLELISM": "4",
            # If the scheduler is killed while it runs a task, the stream has no watch until Airflow gives the task up,
            # by default after five minutes.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._password_file),
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        }
