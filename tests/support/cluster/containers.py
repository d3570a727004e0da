"""What runs in the containers of a YARN, seen from the machine that they share."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import psutil  # type: ignore[import-untyped]

from sessionizer.home.roots import CONTROL_VARIABLE
from sessionizer_demo.local_airflow.api import Api, wait_until
from sessionizer_demo.local_airflow.installation import USER, Installation
from sessionizer_demo.local_airflow.parts import Parts
from support.places import REPOSITORY
from support.processes.hadoop import Yarn
from support.processes.live_airflow import Platform
from support.processes.ports import command_of

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


DOCKER: Final = REPOSITORY / "docker"
PROJECT: Final = "streaming-state-test"
DATA: Final = "s3://sessionizer/data"
CONTROL: Final = "s3://sessionizer/control"
UP_WITHIN_S: Final = 600.0
KILLED_WITHIN_S: Final = 60.0


@dataclass
class ContainerStack:
    """Has empty volumes on entering the context, and none on leaving it. ``folder`` gets specs and logs.

    ``ports``: of Airflow, Kafka and S3, on the loopback interface.
    """

    folder: Path
    ports: list[int]
    _followed: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        require_engine()
        subprocess.run(["make", "stack-images"], cwd=REPOSITORY, check=True)
        self.streams.mkdir(parents=True)
        self.streams.chmod(0o755)  # Airflow's user in the containers is another one
        self._settings.write_text(self._stack_settings())
        self.compose("down", "--volumes", "--remove-orphans")
        return self

    def __exit__(self, *_: object) -> None:
        (self.folder / "containers.log").write_text(self.compose("logs", "--no-color", "--timestamps"))
        self.compose("down", "--volumes", "--remove-orphans")
        self._stop_following()

    @property
    def streams(self) -> Path:
        return self.folder / "streams"

    @property
    def bootstrap_servers(self) -> str:
        return f"localhost:{self.ports[1]}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            CONTROL_VARIABLE: CONTROL,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.ports[2]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self._credential("aws_access_key_id"),
            "AWS_SECRET_ACCESS_KEY": self._credential("aws_secret_access_key"),
        }

    def platform(self) -> Platform:
        """Airflow in the stack, with the stream in mind."""
        password = json.loads((DOCKER / "secrets" / "passwords.json").read_text())[USER]
        installation = Installation(root=self.folder, port=self.ports[0], password=password)
        return Platform(installation, Parts(installation), Api(installation))

    def up(self) -> None:
        self.compose("up", "--detach")
        self._follow_scheduler()
        wait_until(self.platform().api.is_healthy, UP_WITHIN_S, "a healthy Airflow")

    def down(self) -> None:
        self.compose("down")
        self._stop_following()

    def kill_process(self, service: str, name: str) -> None:
        """SIGKILL to all processes of this name in a container, which ends with them, and starts again by itself."""
        container = self.compose("ps", "--quiet", service).strip()
        before = self._starts(container)
        subprocess.run(["docker", "exec", container, "pkill", "-KILL", name], check=False)
        wait_until(lambda: self._starts(container) > before, KILLED_WITHIN_S, f"a {service} that starts again")

    @staticmethod
    def _starts(container: str) -> int:
        return int(_output(["docker", "inspect", "--format", "{{.RestartCount}}", container]))

    def run_in(self, service: str, *command: str) -> str:
        return self.compose("exec", "-T", service, *command)

    def health(self) -> dict[str, str]:
        """Docker's word on each service that has a health check."""
        ids = self.compose("ps", "--quiet").split()
        service, health = '{{index .Config.Labels "com.docker.compose.service"}}', "{{.State.Health.Status}}"
        form = f"{service} {{{{if .State.Health}}}}{health}{{{{end}}}}"
        told = _output(["docker", "inspect", "--format", form, *ids]).splitlines()
        return dict(line.split(" ", 1) for line in told if not line.endswith(" "))

    def compose(self, *arguments: str) -> str:
        return _output([*compose_command(), "--project-name", PROJECT, "--env-file", str(self._settings), *arguments])

    def _follow_scheduler(self) -> None:
        """Keep its log where that of a local Airflow is."""
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        project = ["--project-name", PROJECT, "--env-file", str(self._settings)]
        with (logs / "scheduler.log").open("ab") as log:
            self._followed = subprocess.Popen(
                [*compose_command(), *project, "logs", "--follow", "--no-color", "scheduler"], cwd=DOCKER, stdout=log
            )

    def _stop_following(self) -> None:
        if self._followed is not None:
            self._followed.terminate()
            self._followed.wait()
            self._followed = None

    @property
    def _settings(self) -> Path:
        return self.folder / "stack.env"

    def _stack_settings(self) -> str:
        """Images, sizes and DAG files as in docker/.env."""
        airflow, kafka, s3 = self.ports
        ours = {"AIRFLOW_PORT": airflow, "KAFKA_PORT": kafka, "S3_PORT": s3, "STREAMS": self.streams}
        ours |= {"COMPOSE_FILE": "compose.yaml"}  # without Prometheus
        kept = [line for line in (DOCKER / ".env").read_text().splitlines() if line.partition("=")[0] not in ours]
        return "\n".join([*kept, *(f"{name}={value}" for name, value in ours.items()), ""])

    def _credential(self, name: str) -> str:
        found = re.search(rf"^{name} = (.*)$", (DOCKER / "secrets" / "aws_credentials").read_text(), re.MULTILINE)
        assert found
        return found[1]


def require_engine() -> None:
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip().splitlines()[-1:] if done.returncode else []
    except FileNotFoundError:
        said = ["there is no program docker"]
    assert not said, f"this test needs a Docker engine: {said[0]}. Install and start one, such as docker.io"


def compose_command() -> list[str]:
    """Compose as ``make`` found it, or as it is found here."""
    if os.environ.get("COMPOSE"):
        return shlex.split(os.environ["COMPOSE"])
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=DOCKER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr[-3_000:]}"
    return done.stdout
