"""From what ends a real driver between the start of Spark and its first batch to the words of the notifier."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from support.expected.told_causes import made
from support.faults.other_releases import delta_without, spark_with_less_public
from support.faults.spoiled_streams import a_file, a_file_for_the_quarantine, table_of_another
from support.processes.driver_commands import real_driver
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.watched_stream import WatchedStream

STREAMING_UPDATE = "org/apache/spark/sql/delta/DeltaOperations$StreamingUpdate.class"
TRY_EVAL = "org/apache/spark/sql/catalyst/expressions/TryEval.class"

LATE = """import sys, time
if "pyspark.sql.streaming.transform_with_state_driver_worker" in sys.orig_argv:
    time.sleep(13)
"""


def nothing(_: Path) -> dict[str, str]:
    return {}


def late_workers(folder: Path) -> dict[str, str]:
    """The variables by which the worker that a query starts with needs longer to connect than Spark waits.

    It is the only one that Spark waits ten seconds for. The others are forked from a daemon that has long been up.
    """
    (folder / "late").mkdir()
    (folder / "late" / "sitecustomize.py").write_text(LATE)
    return {"PYTHONPATH": os.pathsep.join([str(folder / "late"), *filter(None, [os.environ.get("PYTHONPATH")])])}


@dataclass(frozen=True)
class FalseStart:
    """A stream of clicks with such a `spec`, so `arranged` and in such an `environment`, ends for `cause`."""

    cause: str
    names: str
    spec: dict[str, Any]
    arranged: Callable[[Stage], None] = a_file
    environment: Callable[[Path], dict[str, str]] = nothing


FALSE_STARTS = {
    "a name node that is away": FalseStart("unreachable", "127.0.0.1:1", {"sink": {"path": "hdfs://127.0.0.1:1/lake"}}),
    "an option that is no number": FalseStart(
        "bad_option",
        "time string: old",
        {"source": clicks_spec()["source"] | {"options": {"maxFileAge": "old"}}},
    ),
    "a table of another stream": FalseStart("TableOwned", "visits@0123456789ab", {}, table_of_another),
    "no jars of Google's store": FalseStart(
        "store_jars_missing",
        "GoogleHadoopFileSystem",
        {"source": clicks_spec()["source"] | {"path": "gs://nowhere/feed"}},
    ),
    "Python workers that are late": FalseStart("python_worker_late", "connect back", {}, environment=late_workers),
    "no Python for workers": FalseStart(
        "unknown", "/nowhere/python", {}, environment=lambda _: {"PYSPARK_PYTHON": "/nowhere/python"}
    ),
    "Delta has moved a class": FalseStart(
        "private_door",
        "StreamingUpdate",
        {},
        a_file_for_the_quarantine,
        lambda root: delta_without(root, STREAMING_UPDATE),
    ),
    "Spark has moved a class": FalseStart(
        "PrivateDoorBroken",
        "TryEval",
        {},
        environment=lambda root: spark_with_less_public(root, "spark-catalyst", TRY_EVAL),
    ),
}


@made(*(start.cause for start in FALSE_STARTS.values()))
@pytest.mark.long
@pytest.mark.parametrize("name", FALSE_STARTS)
def test_what_people_are_told_of_a_query_that_never_was(name: str, watched: WatchedStream) -> None:
    start = FALSE_STARTS[name]
    start.arranged(watched.stage(clicks_spec() | start.spec))
    variables = [f"{name}={value}" for name, value in start.environment(watched.home.platform).items()]
    watched.drive(command=lambda call: ["env", *variables, *real_driver(call)])
    watched.check(start.cause, names=start.names)
    watched.check_status(start.cause)
