"""One Spark for all tests that need one."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionizer.launch.driver_environment import PLAIN_SPARK
from sessionizer.spark.session import spark_session
from support.fixtures.interpreted import interpreted, is_interpreted
from support.processes.driver_process import QUICK_JVM


@pytest.fixture(params=["tuned", pytest.param("plain", marks=pytest.mark.long)])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once with what is private in Spark and Delta, once without (docs/adr/0070): which it is."""
    way = str(request.param)
    monkeypatch.setenv(PLAIN_SPARK, "1" if way == "plain" else "0")
    return way


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        # tasks in which a VACUUM lists its folders: by default 10,000
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # what comes once a minute in life is to come in a test that takes less
        "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
        # room for what a test leaves behind at once: a tenth of this JVM's time was its collection, 100 MB at a time
        # and no process between it and each `chmod` that Hadoop starts for a file
        "spark.driver.extraJavaOptions": f"{QUICK_JVM} -Xmn512m -Djdk.lang.Process.launchMechanism=VFORK",
        # the plan of each query is written down for a page that no test shows
        "spark.sql.ui.explainMode": "simple",
        # so are the tasks that run, ten times a second
        "spark.ui.liveUpdate.period": "10s",
        # and for each call of a column's method, its place in the Python code
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    session = spark_session("tests", master="local[2]", extra=settings)
    remember_classes(session, "functions", "PythonUtils", "PythonSQLUtils")
    yield session
    session.stop()


def remember_classes(session: SparkSession, *names: str) -> None:
    """Have py4j find classes at once: it searches the class path, in vain at first, each time a column is made."""
    view: Any = session.sparkContext._jvm
    for name in names:
        setattr(view, name, getattr(view, name))


@pytest.fixture(scope="module", autouse=True)
def quick_expressions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Spare a module whose streams have a few small batches the compilation of its expressions."""
    with interpreted(request.getfixturevalue("spark")) if is_interpreted(request.node) else nullcontext():
        yield


@pytest.fixture(autouse=True)
def nobody_stops_the_spark_of_all(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that stopped it, such as by a driver that ends well, instead of every one after it."""
    yield
    if "spark" in request.fixturenames:
        session: SparkSession = request.getfixturevalue("spark")
        assert session.sparkContext.applicationId
