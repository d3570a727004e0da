"""A real Spark standalone cluster on loopback: one master and one worker from pyspark's jars, ended by pid."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from sessionizer.control.records.process_records import identify
from sessionizer_airflow.launching.local import kill
from support.places import known
from support.processes.ports import eventually

SPARK_HOME = Path(pyspark.__file__).parent
PACKAGE = "org.apache.spark.deploy"


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Give the master's URL once a worker has registered; the worker knows nothing of our Python packages."""
    with (
        standalone_master(folder) as url,
        _ended(_start(f"{PACKAGE}.worker.Worker", folder, "--cores", "1", "--memory", "1g", url)),
    ):
        _await("Successfully registered with master", folder / "Worker.log")
        yield url


@contextmanager
def standalone_master(folder: Path) -> Iterator[str]:
    with _ended(_start(f"{PACKAGE}.master.Master", folder)):
        yield _await(r"Starting Spark master at (spark://\S+)", folder / "Master.log")[1]


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


def _await(line: str, log: Path) -> re.Match[str]:
    eventually(lambda: re.search(line, log.read_text()), 180, lambda: f"{line}: {log.read_text()[-2000:]}")
    return known(re.search(line, log.read_text()))
