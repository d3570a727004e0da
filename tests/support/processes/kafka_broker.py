"""A real Kafka broker from the jars of ``.jars/broker``: one process, loopback only, in a directory of its own."""

import base64
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from support.places import REPOSITORY, known
from support.processes.hadoop import JVM, java
from support.processes.ports import eventually, free_ports

_WITHIN_S = 180.0
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=9000
log.cleaner.dedupe.buffer.size=8388608
num.network.threads=2
num.io.threads=2
"""


class KafkaBroker:
    """Starts on entering the context, stops on leaving it; ``directory`` gets its data and its log.

    Raises FileNotFoundError without the jars, AssertionError with the end of the log if it does not come up.
    """

    def __init__(self, directory: Path) -> None:
        jars = REPOSITORY / ".jars" / "broker"
        if not any(jars.glob("kafka_*.jar")):
            message = f"no Kafka jars in {jars}: run `make jars`"
            raise FileNotFoundError(message)
        self.log = directory / "broker.log"
        self._properties = directory / "server.properties"
        self._class_path = str(jars / "*")
        self._process: subprocess.Popen[bytes] | None = None
        port, controller_port = free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._properties.write_text(
            _PROPERTIES.format(port=port, controller_port=controller_port, data=directory / "data"), encoding="utf-8"
        )

    def __enter__(self) -> Self:
        self._format_storage()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process of the broker, None when it is down."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        if self._process:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties)), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            eventually(self._answers, _WITHIN_S, self._end_of_log)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Shut it down in order; what does not end in time is killed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """A new topic, whose partitions have a leader when this returns. ``settings`` with ``_`` for a dot."""
        admin = self._admin()
        config = {name.replace("_", "."): value for name, value in settings.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([topic])[name].result(timeout=_WITHIN_S)
        self._wait_for_leaders(admin, name, partitions)

    def add_partitions(self, name: str, total: int) -> None:
        admin = self._admin()
        admin.create_partitions([NewPartitions(name, total)])[name].result(timeout=_WITHIN_S)
        self._wait_for_leaders(admin, name, total)

    @staticmethod
    def _wait_for_leaders(admin: AdminClient, name: str, partitions: int) -> None:
        def are_led() -> bool:
            found = admin.list_topics(name, timeout=_WITHIN_S).topics[name].partitions
            return sum(partition.leader >= 0 for partition in found.values()) >= partitions

        eventually(are_led, _WITHIN_S, f"leaders of the partitions of {name}")

    def delete_topic(self, name: str) -> None:
        """The topic is gone for every client when this returns."""
        admin = self._admin()
        admin.delete_topics([name])[name].result(timeout=_WITHIN_S)
        eventually(lambda: name not in admin.list_topics(timeout=_WITHIN_S).topics, _WITHIN_S, f"the end of {name}")

    def forbid_reading(self, topic: str) -> None:
        """Take the right to read ``topic`` from every client."""
        denied = (AclOperation.READ, AclPermissionType.DENY)
        rule = AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", "*", *denied)
        admin = self._admin()
        admin.create_acls([rule])[rule].result(timeout=_WITHIN_S)

    def delete_records(self, topic: str, before: int) -> None:
        """Have partition 0 begin at the offset ``before``, as after its retention has passed."""
        place = TopicPartition(topic, 0, before)
        admin = self._admin()
        admin.delete_records([place])[place].result(timeout=_WITHIN_S)

    def _java(self, *command: str) -> list[str]:
        return [java(), "-Xms128m", *JVM, "-cp", self._class_path, *command]

    def _format_storage(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # as one word: an id may begin with a dash
        options = ("format", f"--cluster-id={cluster_id}", "--config", str(self._properties))
        with self.log.open("ab") as log:
            subprocess.run(
                self._java("kafka.tools.StorageTool", *options), stdout=log, stderr=subprocess.STDOUT, check=True
            )

    def _answers(self) -> bool:
        assert known(self._process).poll() is None, self._end_of_log()
        try:
            return bool(self._admin().list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 2})

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _end_of_log(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])


@pytest.fixture(scope="session")
def running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def kafka_broker(running_broker: KafkaBroker) -> KafkaBroker:
    """The broker, up again if the test before has left it down."""
    running_broker.start()
    return running_broker


@pytest.fixture
def kafka_topic(kafka_broker: KafkaBroker) -> str:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    kafka_broker.create_topic(name, partitions=2)
    return name
