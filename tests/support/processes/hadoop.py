"""A real HDFS and a real YARN from the jars of ``.jars/hadoop``: JVMs on loopback, in a folder of their own."""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from xml.etree.ElementTree import Element, ElementTree, SubElement

import psutil  # type: ignore[import-untyped]
import pyspark
import pytest
from upath import UPath

from support.places import REPOSITORY, known
from support.processes.ports import eventually, free_addresses

HADOOP_JARS = REPOSITORY / ".jars" / "hadoop"
UP_WITHIN_S = 240.0
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Spark's jars bring log4j 2, which without a word of ours tells of errors only.
LOGGING = """\
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c{1}: %m%n
"""
DFS = "org.apache.hadoop.hdfs.server"
YARN = "org.apache.hadoop.yarn.server"


def java_home() -> str:
    found = os.environ.get("JAVA_HOME")
    return found or str(Path(shutil.which("java") or "/usr/bin/java").resolve().parents[1])


def java() -> str:
    return f"{java_home()}/bin/java"


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    root = Element("configuration")
    for name, value in settings.items():
        entry = SubElement(root, "property")
        SubElement(entry, "name").text = name
        SubElement(entry, "value").text = value
    ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def ask_json(place: str) -> dict[str, Any]:
    """Return the document at an address, which is empty while nothing answers there."""
    try:
        with urllib.request.urlopen(f"http://{place}", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
    except (OSError, ValueError):
        return {}
    return found


@dataclass
class HadoopDaemon:
    """A process of ``main_class`` with the settings in the folder ``configuration``. It prints into ``folder``."""

    main_class: str
    folder: Path
    configuration: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.main_class.rpartition('.')[2]}.log"

    def run(self, *arguments: str) -> None:
        """Run it to its end, which must be a good one."""
        assert self._start(*arguments).wait(UP_WITHIN_S) == 0, self._end_of_log()

    def start(self, answers: Callable[[], bool]) -> None:
        """Start it, unless it runs, and return when ``answers`` holds."""
        self.process = running = self.process or self._start()

        def has_come() -> bool:
            assert running.poll() is None, self._end_of_log()
            return answers()

        try:
            eventually(has_come, UP_WITHIN_S, self._end_of_log)
        except AssertionError:
            self.kill()
            raise

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def freeze(self) -> None:
        """Stop its work, with its connections open, until ``thaw``."""
        known(self.process).send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        known(self.process).send_signal(signal.SIGCONT)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        if not any(HADOOP_JARS.glob("*.jar")):
            message = f"no jars in {HADOOP_JARS}: run `make jars`"
            raise FileNotFoundError(message)
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOGGING)
        jars = [str(self.configuration), f"{HADOOP_JARS}/*", f"{Path(pyspark.__file__).parent}/jars/*"]
        command = [java(), *JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", os.pathsep.join(jars)]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*command, self.main_class, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**_environment(), **self.environment}, start_new_session=True, cwd=self.folder,
            )  # fmt: skip

    def _end_of_log(self) -> str:
        printed = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"{self.log.stem} did not come up:", *printed[-20:]])


def _environment() -> dict[str, str]:
    """Ours without what would lead the processes that a daemon starts to our own packages and settings."""
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "JAVA_TOOL_OPTIONS")
    dropped = ("SESSIONIZER_", "AIRFLOW_", "SPARK_", "HADOOP_", "YARN_")
    return {name: value for name, value in os.environ.items() if name not in ours and not name.startswith(dropped)}


class HadoopService(ABC):
    """Daemons that make up one service: started on entering the context, killed with all they run on leaving it.

    ``configuration`` is what ``HADOOP_CONF_DIR`` is set to by those who use it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.configuration = folder, folder / "conf"
        self.configuration.mkdir(parents=True)

    @abstractmethod
    def start(self) -> None:
        """Start the daemons that are down, with the same data, and return when they can be used."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL to all of it."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Hdfs(HadoopService):
    """A NameNode and a DataNode. ``folder`` gets settings, data and logs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        address, self._web = free_addresses(2)
        self.uri = f"hdfs://{address}"
        write_settings(self.configuration / "core-site.xml", {"fs.defaultFS": self.uri})
        write_settings(self.configuration / "hdfs-site.xml", self._settings())
        self.name_node = HadoopDaemon(f"{DFS}.namenode.NameNode", folder, self.configuration)
        self.data_node = HadoopDaemon(f"{DFS}.datanode.DataNode", folder, self.configuration)

    def __enter__(self) -> Self:
        self.name_node.run("-format", "-nonInteractive")
        return super().__enter__()

    def start(self) -> None:
        self.name_node.start(lambda: bool(self._state()))
        self.data_node.start(self.is_writable)

    def kill(self) -> None:
        self.data_node.kill()
        self.name_node.kill()

    def is_writable(self) -> bool:
        """Whether the NameNode has left its safe mode and knows a DataNode."""
        state = self._state()
        return state.get("FSState") == "Operational" and state.get("NumLiveDataNodes") == 1

    def _state(self) -> dict[str, Any]:
        found = ask_json(f"{self._web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState").get("beans")
        return found[0] if found else {}

    def _settings(self) -> dict[str, str]:
        return {
            "dfs.replication": "1",
            "dfs.namenode.name.dir": f"file://{self.folder}/name",
            "dfs.datanode.data.dir": f"file://{self.folder}/data",
            "dfs.namenode.http-address": self._web,
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # after a restart the safe mode ends when every block is there: not before it, not 30 s after it
            "dfs.namenode.safemode.threshold-pct": "1.0",
            "dfs.namenode.safemode.min.datanodes": "1",
            "dfs.namenode.safemode.extension": "0",
            "dfs.datanode.du.reserved": "0",
        }


class Yarn(HadoopService):
    """A ResourceManager and a NodeManager. ``folder`` gets settings, work and logs.

    ``core`` is a ``core-site.xml``: the file system of its applications.
    """

    def __init__(self, folder: Path, core: Path) -> None:
        super().__init__(folder)
        for file in core.parent.glob("*-site.xml"):
            shutil.copy(file, self.configuration)
        of_manager = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        of_node = ("address", "localizer.address", "webapp.address")
        names = [f"yarn.resourcemanager.{name}" for name in of_manager] + [
            f"yarn.nodemanager.{name}" for name in of_node
        ]
        addresses = dict(zip(names, free_addresses(len(names)), strict=True))
        self.web = addresses["yarn.resourcemanager.webapp.address"]
        write_settings(self.configuration / "yarn-site.xml", addresses | self._settings())
        self.resource_manager = HadoopDaemon(f"{YARN}.resourcemanager.ResourceManager", folder, self.configuration)
        java = {"JAVA_HOME": java_home()}
        self.node_manager = HadoopDaemon(f"{YARN}.nodemanager.NodeManager", folder, self.configuration, java)

    def start(self) -> None:
        self.resource_manager.start(self.is_active)
        self.node_manager.start(self.has_node)

    def kill(self) -> None:
        self.node_manager.kill()
        self.resource_manager.kill()
        for process in list(self.processes()):
            process.kill()

    def is_active(self) -> bool:
        """Whether the ResourceManager knows what it had before."""
        return bool(self.asked("info").get("clusterInfo", {}).get("haState") == "ACTIVE")

    def has_node(self) -> bool:
        nodes = (self.asked("nodes").get("nodes") or {}).get("node", [])
        return [node["state"] for node in nodes] == ["RUNNING"]

    def asked(self, path: str) -> dict[str, Any]:
        """Return the ResourceManager's answer below ``/ws/v1/cluster``, empty without one."""
        return ask_json(f"{self.web}/ws/v1/cluster/{path}")

    def processes(self) -> Iterator[psutil.Process]:
        """The processes of its containers: YARN tells each where its folder is, and what it forks inherits that."""
        for process in psutil.process_iter():
            try:
                if process.environ().get("LOCAL_DIRS", "").startswith(str(self.folder)):
                    yield process
            except psutil.Error:
                continue

    def _settings(self) -> dict[str, str]:
        return {
            "yarn.nodemanager.local-dirs": f"{self.folder}/local",
            "yarn.nodemanager.log-dirs": f"{self.folder}/containers",
            "yarn.nodemanager.resource.memory-mb": "3072",
            "yarn.nodemanager.resource.cpu-vcores": "8",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
            "yarn.nodemanager.delete.debug-delay-sec": "3600",
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.resourcemanager.scheduler.class": f"{YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
            "yarn.resourcemanager.webapp.cross-origin.enabled": "false",
            # a NodeManager that is gone is noticed within seconds, not after ten minutes
            "yarn.nm.liveness-monitor.expiry-interval-ms": "15000",
            "yarn.am.liveness-monitor.expiry-interval-ms": "60000",
            # what runs outlives a ResourceManager that is away for a while; for a NodeManager the jars lack a store
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.resourcemanager.store.class": f"{YARN}.resourcemanager.recovery.FileSystemRMStateStore",
            "yarn.resourcemanager.fs.state-store.uri": f"file://{self.folder}/applications",
        }


@pytest.fixture(scope="session")
def running_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as hdfs:
        yield hdfs


@pytest.fixture
def hdfs(running_hdfs: Hdfs) -> Hdfs:
    """The file system, started again if the test before has left it down."""
    running_hdfs.start()
    return running_hdfs


@pytest.fixture
def hdfs_folder(hdfs: Hdfs) -> UPath:
    """Make a folder of the test's own in HDFS, which Python reaches without a JVM."""
    folder = UPath(f"{hdfs.uri}/tests/{uuid.uuid4().hex[:12]}")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="session")
def running_yarn(running_hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with Yarn(tmp_path_factory.mktemp("yarn"), running_hdfs.configuration / "core-site.xml") as yarn:
        yield yarn


@pytest.fixture
def yarn(running_yarn: Yarn, hdfs: Hdfs) -> Yarn:
    """The cluster, started again if the test before has left it down. ``yarn.configuration`` is for both."""
    running_yarn.start()
    return running_yarn
