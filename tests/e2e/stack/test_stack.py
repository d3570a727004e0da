"""A stream in the stack of containers, from empty volumes, on Spark's cluster, with control and data in S3.

Its worker is killed, it is restored and upgraded from Airflow, and the stack is taken down and put up again. The tests
follow the stream in order, in two stacks one after another.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import CONTROL_VARIABLE
from sessionizer.state.savepoints.listing import list_savepoints
from sessionizer_demo.feed.generator import Row
from sessionizer_demo.local_airflow.api import Api, wait_until
from sessionizer_demo.local_airflow.installation import USER, Installation
from sessionizer_demo.local_airflow.parts import Parts
from support.expected.landed import assert_landed
from support.pages.browser import chromium
from support.pages.page_user import PICTURES, OperateForm
from support.places import REPOSITORY, known
from support.processes.live_airflow import Platform, tolerant
from support.processes.ports import free_ports
from support.streams.click_files import known_rows
from support.streams.kafka_clicks import Place, batches_of, kafka_spec, produce, read_so_far
from support.streams.stage import Stage

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

DOCKER: Final = REPOSITORY / "docker"
PROJECT: Final = "streaming-state-test"
DATA: Final = "s3://sessionizer/data"
CONTROL: Final = "s3://sessionizer/control"


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
        wait_until(self.platform().api.is_healthy, 600, "a healthy Airflow")

    def down(self) -> None:
        self.compose("down")
        self._stop_following()

    def kill_process(self, service: str, name: str) -> None:
        """SIGKILL to all processes of this name in a container, which ends with them, and starts again by itself."""
        container = self.compose("ps", "--quiet", service).strip()
        before = self._starts(container)
        subprocess.run(["docker", "exec", container, "pkill", "-KILL", name], check=False)
        wait_until(lambda: self._starts(container) > before, 60, f"a {service} that starts again")

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
        secrets = (DOCKER / "secrets" / "aws_credentials").read_text()
        return known(re.search(rf"^{name} = (.*)$", secrets, re.MULTILINE))[1]


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


TOPIC, PARTITIONS = "clicks", 2
STEP = 150
"""Rows between two steps."""
ROWS = known_rows(7 * STEP)
READ_WITHIN_S, ANSWERED_WITHIN_S = 600, 600


@dataclass
class Stacked:
    """The stream in the stack, and the rows that were sent to it."""

    stack: ContainerStack
    platform: Platform
    stage: Stage
    placed: dict[Place, Row] = field(default_factory=dict)

    @property
    def form(self) -> OperateForm:
        return OperateForm(self.platform)

    def feed(self) -> None:
        sent = len(self.placed)
        self.placed |= produce(self.stack, TOPIC, ROWS[sent : sent + STEP])

    def wait_until_read(self) -> None:
        wait_until(lambda: read_so_far(self.stage) == len(self.placed), READ_WITHIN_S, "a stream that has read all")

    def write_spec(self, **rules: Any) -> None:
        spec = kafka_spec("kafka:9092", TOPIC)
        self.stage.write_spec({**spec, "rules": {**spec["rules"], **rules}})
        (self.stage.streams / f"{self.stage.name}.yaml").chmod(0o644)

    def carry_out(self, verb: str, **fields: Any) -> str:
        """Ask for it in the form, approve its plan, and return what the plan said."""
        run = self.form.ask(verb, **fields)
        shown = str(self.form.wait_for_plan(run)["body"]).replace("\\", "")
        self.form.answer(run, "Approve")
        assert self.form.wait_for_end(run, ANSWERED_WITHIN_S) == "success", self.form.errors(run, "carry_out")
        record = read_operations(self.platform.home)[-1]
        assert (record.verb, record.by, record.outcome) == (verb, "admin (Airflow)", Ending.DONE)
        return shown

    def ways(self) -> list[tuple[Any, int | None]]:
        """Checkpoints that led to the open sessions, each with its last batch that counts."""
        home = self.stage.stream_home
        saved = {each.id: each.manifest for each in list_savepoints(home.savepoints, epoch_ms())}
        found: list[tuple[Any, int | None]] = []
        for record in read_operations(self.platform.home):
            # an upgrade carries over the savepoint that it makes itself
            manifest = known(saved[record.savepoint or f"{record.verb}-{record.id}"])
            found.append((home.checkpoint(record.lineage_from), manifest.batch_id))
        return [*found, (self.stage.checkpoint, None)]


@pytest.fixture(scope="module")
def ports() -> list[int]:
    """The ports of both stacks, because a process keeps the client of a store with the address that it had at first."""
    return free_ports(3)


@pytest.fixture(scope="module", params=["first", "second"])
def stacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, ports: list[int]
) -> Iterator[Stacked]:
    root = tmp_path_factory.mktemp(f"stack-{request.param}")
    with ContainerStack(root, ports) as stack, pytest.MonkeyPatch.context() as environment:
        for name, value in stack.environment.items():
            environment.setenv(name, value)
        platform = stack.platform()
        stage = Stage(root, platform.installation.platform_home, data=DATA, control=CONTROL)
        found = Stacked(stack, platform, stage)
        found.write_spec()
        stack.up()
        wait_until(tolerant(lambda: platform.dag in platform.api.dag_ids()), 300, "the DAGs")
        yield found


def test_a_stream_reads_from_kafka_on_the_cluster(stacked: Stacked) -> None:
    admin = AdminClient({"bootstrap.servers": stacked.stack.bootstrap_servers, "log_level": 2})
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])[TOPIC].result(timeout=60)
    stacked.feed()
    stacked.platform.api.unpause(stacked.platform.dag)
    stacked.platform.wait_for_driver(seconds=READ_WITHIN_S)
    stacked.wait_until_read()
    answer = stacked.stack.run_in("spark-master", "wget", "-q", "-O", "-", "http://spark-master:8080/json/")
    (application,) = json.loads(answer)["activeapps"]
    assert (application["name"], application["state"]) == ("sessionizer clicks", "RUNNING")
    stacked.platform.wait_for_watch(seconds=180)


def test_every_part_is_healthy(stacked: Stacked) -> None:
    wait_until(lambda: set(stacked.stack.health().values()) == {"healthy"}, 180, "healthy containers")
    assert set(stacked.stack.health()) == {
        "postgres", "s3", "api-server", "scheduler", "dag-processor", "triggerer", "kafka", "spark-master",
        "spark-worker",
    }  # fmt: skip
    info = stacked.stack.run_in("scheduler", "airflow", "info", "--anonymize")
    assert "LocalExecutor" in info
    assert "postgresql+psycopg2" in info
    if PICTURES is not None:
        with chromium() as browser:
            airflow = stacked.platform.installation
            browser.show_as(1200, 480)
            browser.log_in(airflow.address, airflow.password)
            browser.open(f"{airflow.address}/plugin/streams")
            said = re.compile(r"(?<!un)healthy")
            wait_until(lambda: bool(said.search(browser.text())), 180, "a healthy stream on the page")
            browser.picture(PICTURES / "stack.png")


def test_a_killed_worker_costs_nothing(stacked: Stacked) -> None:
    uid, lineage = stacked.platform.wait_for_driver(), stacked.stage.lineage
    stacked.stack.kill_process("spark-worker", "java")
    stacked.feed()
    stacked.wait_until_read()
    assert stacked.stage.lineage == lineage
    assert stacked.platform.wait_for_driver() == uid, "the driver outlives a worker"


def test_a_savepoint_is_restored_once_it_is_approved(stacked: Stacked) -> None:
    run = stacked.form.ask("savepoint", why="before all of it")
    assert stacked.form.wait_for_end(run) == "success", stacked.form.errors(run, "savepoint")
    (made,) = [each for each in list_savepoints(stacked.stage.stream_home.savepoints, epoch_ms()) if each.is_complete]
    left = stacked.stage.lineage
    stacked.feed()
    stacked.wait_until_read()
    assert f"from  lineage {left}" in stacked.carry_out("restore", savepoint=made.id)
    assert stacked.stage.lineage != left
    stacked.wait_until_read()


def test_an_upgrade_goes_on_in_a_new_lineage(stacked: Stacked) -> None:
    left = stacked.stage.lineage
    stacked.write_spec(emit_every="8 seconds")
    assert "emit_every" in stacked.carry_out("upgrade", new_lineage=True)
    assert stacked.stage.lineage != left
    stacked.feed()
    stacked.wait_until_read()


def test_down_and_up_again_it_goes_on(stacked: Stacked) -> None:
    uid, lineage = stacked.platform.working_uid(), stacked.stage.lineage
    stacked.feed()
    stacked.stack.down()
    stacked.stack.up()
    stacked.feed()
    stacked.platform.wait_for_driver(other_than=uid, seconds=READ_WITHIN_S)
    stacked.wait_until_read()
    assert stacked.stage.lineage == lineage


def test_the_tables_come_out_as_they_must(stacked: Stacked) -> None:
    platform = stacked.platform
    stacked.feed()
    platform.stop(300)
    platform.api.set_paused(platform.dag, paused=True)
    write_desired(platform.home, DesiredState.RUNNING, by="tests", why="to drain it without Airflow")
    stacked.stack.run_in("scheduler", "sessionizer", "run", "clicks", "--until", "drained")
    assert len(stacked.placed) == len(ROWS)
    assert_landed(stacked.stage, batches_of(stacked.ways(), TOPIC, stacked.placed), ROWS)
