"""One daemon of Hadoop from the jars of ``.jars/hadoop``: a JVM of its own, loopback only, ended by pid."""

import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.etree.ElementTree import Element, ElementTree, SubElement

import pyspark

from support.places import REPOSITORY

HADOOP_JARS = REPOSITORY / ".jars" / "hadoop"
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
UP_WITHIN_S = 120.0
LOOK_EVERY_S = 0.2
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


class DaemonNeverCame(AssertionError):
    """A daemon ended, or took too long, before it answered; the message has the end of its log."""


@dataclass
class HadoopDaemon:
    """``main_class`` run with the settings in ``configuration`` (a folder); it prints into ``folder``."""

    main_class: str
    folder: Path
    configuration: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.main_class.rpartition(".")[2]

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def run(self, *arguments: str) -> None:
        """Run it to its end; raises DaemonNeverCame if that is no good one."""
        if self._start(*arguments).wait(UP_WITHIN_S) != 0:
            raise DaemonNeverCame(self._end_of_log())

    def start(self, answers: Callable[[], bool]) -> None:
        """Start it, unless it runs, and return when ``answers`` holds; raises DaemonNeverCame."""
        if self.process is None:
            self.process = self._start()
        deadline = time.monotonic() + UP_WITHIN_S
        while not answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise DaemonNeverCame(self._end_of_log())
            time.sleep(LOOK_EVERY_S)

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def freeze(self) -> None:
        """It neither works nor closes its connections, until ``thaw``."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        if not any(HADOOP_JARS.glob("*.jar")):
            message = f"no jars in {HADOOP_JARS}: run `make jars`"
            raise FileNotFoundError(message)
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOGGING)
        class_path = os.pathsep.join([str(self.configuration), f"{HADOOP_JARS}/*", f"{SPARK_JARS}/*"])
        command = [_java(), *JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", class_path, self.main_class]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**_environment(), **self.environment},
                start_new_session=True,
                cwd=self.folder,
            )

    def _end_of_log(self) -> str:
        printed = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"{self.name} did not come up:", *printed[-20:]])


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    root = Element("configuration")
    for name, value in settings.items():
        entry = SubElement(root, "property")
        SubElement(entry, "name").text = name
        SubElement(entry, "value").text = value
    ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _java() -> str:
    java_home = os.environ.get("JAVA_HOME")
    return str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java") or "java"


def _environment() -> dict[str, str]:
    """Ours without what would lead the processes that a daemon starts to our own packages and settings."""
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "JAVA_TOOL_OPTIONS")
    dropped = ("SESSIONIZER_", "AIRFLOW_", "SPARK_", "HADOOP_", "YARN_")
    return {name: value for name, value in os.environ.items() if name not in ours and not name.startswith(dropped)}


class HadoopService(ABC):
    """Daemons that make up one service: started on entering the context, killed on leaving it."""

    @abstractmethod
    def start(self) -> None:
        """Start what is down, at the same place with the same data, and return when it can be used."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL to all of it."""

    def prepare(self) -> None:  # noqa: B027  most have nothing to do
        """What is done once, before the first start."""

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
