"""A stream in the stack of containers, from empty volumes, on Spark's cluster, with control and data in S3.

Its worker is killed, it is restored and upgraded from Airflow, and the stack is taken down and put up again. The tests
follow the stream in order, in two stacks one after another.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.home.clock import epoch_ms
from sessionizer.state.savepoints.listing import list_savepoints
from sessionizer_demo.feed.generator import Row
from sessionizer_demo.local_airflow.api import wait_until
from support.cluster.containers import CONTROL, DATA, ContainerStack
from support.expected.landed import assert_landed
from support.pages.browser import chromium
from support.pages.page_user import PICTURES, OperateForm
from support.places import known
from support.processes.live_airflow import Platform, tolerant
from support.processes.ports import free_ports
from support.streams.click_files import known_rows
from support.streams.kafka_clicks import Place, batches_of, kafka_spec, produce, read_so_far
from support.streams.stage import Stage

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

TOPIC, PARTITIONS = "clicks", 2
STEP = 150
"""Rows between two steps."""
ROWS = known_rows(7 * STEP)
BEFORE_ALL_OF_IT = "before all of it"
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
    run = stacked.form.ask("savepoint", why=BEFORE_ALL_OF_IT)
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
