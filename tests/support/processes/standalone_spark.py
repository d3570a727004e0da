"""A real Spark standalone cluster on loopback: one master and one worker from pyspark's jars, ended by pid."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from sessionizer.control.records.process_records import identify
from sessionizer_airflow.launching.local import kill

SPARK_HOME = Path(pyspark.__file__).parent
PACKAGE = "org.apache.spark.deploy"
UP_WITHIN_S = 60.0
MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Successfully registered with master")


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Give the master's URL once a worker has registered; the worker knows nothing of our Python packages."""
    with (
        standalone_master(folder) as url,
        _ended(_start(f"{PACKAGE}.worker.Worker", folder, "--cores", "1", "--memory", "1g", url)),
    ):
        _await(REGISTERED, folder / "Worker.log")
        yield url


@contextmanager
def standalone_master(folder: Path) -> Iterator[str]:
    with _ended(_start(f"{PACKAGE}.master.Master", folder)):
        yield _await(MASTER_URL, folder / "Master.log")[1]


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        identity = identify(process.pid)
        if identity is not None:
            kill(identity)
        process.wait()


def _start(main_class: str, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # bin/spark-class would find the last one out; a worker that does not know it starts no executor
    environment |= {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13"}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder / "work")}
    command = ["java", "-Xmx256m", "-cp", f"{SPARK_HOME / 'jars'}/*", main_class]
    command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
    with (folder / f"{main_class.rpartition('.')[2]}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)


def _await(line: re.Pattern[str], log: Path) -> re.Match[str]:
    deadline = time.monotonic() + UP_WITHIN_S
    while (found := line.search(log.read_text())) is None:
        assert time.monotonic() < deadline, f"{line.pattern} is not in {log.read_text()[-2000:]}"
        time.sleep(0.2)
    return found
