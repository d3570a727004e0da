"""The processes of a driver: a check of its executors, an early start of Python, and a JVM without memory.

The check finds faults that cannot pass by themselves, before anything of the stream is made. Other failures (an
executor that is lost, a name node that is away) are left to the stream, which knows how to wait.

On this machine a JVM without memory ends at once (``launch/driver_environment.py``), and Python sees a broken
connection. With other options Spark shuts its context down, and Python sees the error that followed. The JVM's last
lines and its exit code are more exact.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionizer.errors import ExecutorsUnfit
from sessionizer.home.data_files import list_names, remove_tree
from sessionizer.home.local_files import TEMPORARY_SUFFIX, BoundedLog
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.launch.driver_environment import ENDED_WITHOUT_MEMORY
from sessionizer.spark.internals.java_errors import JavaError, JavaUnreachable
from sessionizer.spark.internals.own_jvm import exit_code_of_jvm
from sessionizer.spark.session import jvm_version

if TYPE_CHECKING:
    import pyarrow as pa


HERE: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
NEEDED: Final = ("sessionizer", "pyarrow", "pandas", "numpy", "google.protobuf")
UNFIT: Final = (
    (re.compile(r"\[PYTHON_VERSION_MISMATCH\][^\n]*?version: ([\d.]+)"), "their Python is {}, the driver's is {here}"),
    (re.compile(r'Cannot run program "([^"]+)"'), "they have no program {}"),
    (re.compile(r"No module named '([\w.]+)'"), "their Python lacks {}"),
)
UNWRITABLE: Final = re.compile(r"([^\n]*(?:Permission denied|Read-only file system|Mkdirs failed to create)[^\n]*)")


def require_fit_executors(spark: SparkSession, data: DataPath) -> None:
    """Raise ExecutorsUnfit if those here by now lack a package, have another Python, or cannot write to ``data``."""
    tasks = spark.sparkContext.defaultParallelism
    with _unfit(UNFIT):
        for host, lacking in spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(_question()).collect():
            if lacking:
                raise ExecutorsUnfit(f"their Python lacks {', '.join(lacking)}", host)
    # a path may be another folder on each machine
    place = data / f".executors.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        with _unfit(((UNWRITABLE, "{}"),)):
            spark.range(0, tasks, 1, tasks).write.parquet(uri_of(place))
            if sum(name.startswith("part-") for name in list_names(place)) < tasks:
                raise ExecutorsUnfit(f"what they write to {uri_of(data)} is not there for the driver")
    finally:
        with suppress(OSError):
            remove_tree(place)


def _question() -> Callable[[Any], Iterator[tuple[str, list[str]]]]:
    """Return the question, which is sent by value because the packages and ours may be missing there."""
    needed = NEEDED

    def lacking(_: object) -> Iterator[tuple[str, list[str]]]:
        import importlib.util  # noqa: PLC0415  elsewhere
        import os  # noqa: PLC0415

        def is_there(name: str) -> bool:
            try:
                return importlib.util.find_spec(name) is not None
            except ModuleNotFoundError:
                return False

        yield os.uname().nodename, [name for name in needed if not is_there(name)]

    return lacking


@contextmanager
def _unfit(signs: Iterable[tuple[re.Pattern[str], str]]) -> Iterator[None]:
    """Raise ExecutorsUnfit for a failure in the block that shows one of ``signs``. Other failures are ignored."""
    try:
        yield
    except (PySparkException, JavaError) as error:
        for sign, told in signs:
            if (found := sign.search(str(error))) is not None:
                raise ExecutorsUnfit(told.format(found[1].strip(), here=HERE)) from error


ENDED_WITHIN_S: Final = 30.0
"""Seconds to wait for the workers, because a cluster may have no executor to spare."""


@contextmanager
def start_python_workers(spark: SparkSession) -> Iterator[None]:
    """Start the workers, and ask for the JVM's version, while the block runs, which ends when they have started.

    A Spark that is stopped under a job fills the log. A failure is harmless, because the first batch starts them then.
    """

    def run_once() -> None:
        with suppress(PySparkException, JavaUnreachable, OSError):
            spark.range(1).mapInArrow(_pass_on, "id bigint").collect()
            jvm_version(spark)

    thread = threading.Thread(target=run_once, name="python-start", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(ENDED_WITHIN_S)


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


LAST_BYTES: Final = 256 * 1024
_WORDS: Final = re.compile(
    # not in a message about an executor's task, in which it does not begin the line
    r'^(?:Terminating due to |Exception in thread "[^"]*" )?(java\.lang\.OutOfMemoryError\b[^\n]*)',
    re.MULTILINE,
)


def words_of_this_jvm() -> str | None:
    """Return the JVM's message about its memory, None if it gave none."""
    log = BoundedLog.from_environment(os.environ)
    printed = None if log is None else find_memory_message(log.path)
    # a JVM that no longer answers ends within two seconds
    return printed or ("java.lang.OutOfMemoryError" if exit_code_of_jvm(2.0) == ENDED_WITHOUT_MEMORY else None)


def find_memory_message(log: Path) -> str | None:
    """Return the message about exhausted memory at the end of a driver's ``log``, None without one."""
    try:
        with log.open("rb") as opened:
            opened.seek(max(0, log.stat().st_size - LAST_BYTES))
            printed = opened.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return None
    found = _WORDS.search(printed)
    return found[1].strip() if found else None
