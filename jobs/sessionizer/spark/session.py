"""The SparkSession that every job of ours runs in, with the settings that make the stream's state exact.

Where it runs (master, memory, queue) comes from spark-submit or the environment, never from here.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.files import COMPACT_INTERVAL, PARTS
from sessionizer.errors import JvmNotStarted
from sessionizer.home.roots import hadoop_settings
from sessionizer.launch.driver_environment import (
    DRIVER_MEMORY,
    LOCALE_VARIABLES,
    cluster_locale,
    is_local_master,
    launch_settings,
    plain,
    session_settings,
)
from sessionizer.launch.installation import PACKAGE, jar_folder
from sessionizer.launch.scratch import SCRATCH, hold_scratch, scratch_environment
from sessionizer.spark.internals.checkpoint_files import HADOOPS, local_checkpoint_settings
from sessionizer.spark.internals.own_jvm import start_context

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
EXACTNESS: dict[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # v1 loads a stale snapshot after a rewind and says nothing; v2 verifies what it loads
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # a bad cast in a mapping gives null, which the guard quarantines; ANSI would kill the stream for one bad row
    "spark.sql.ansi.enabled": "false",
    # what two expressions have in common would be evaluated once, outside of what makes a failure null (docs/adr/0005)
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # else SQL of a spec with ${…} would read variables of the driver
    "spark.sql.variable.substitute": "false",
    # a copy of a checkpoint has its list of files in these parts, and Spark ends a query that looks for others
    COMPACT_INTERVAL: str(PARTS),
}

DELTA: dict[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

SMALL_ROW: Final = 16_384
"""Bytes of a row that counts as small: an Arrow batch of only the largest such rows still fits into its 2 GiB."""

THROUGHPUT: dict[str, str] = {
    # rows on the way into Python: the fewer batches, the fewer blobs
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    # a query without progress reports this often (ms) that it is idle: idle_after is measured with it
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
    # a query that is cut off has so long to end; by default it is waited for without end
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.stateStore.rocksdb.compression": "lz4",
    # to count the rows, each append to a list would read the whole list first, which is a group's log
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # cheaper to write than Spark's default INT96, which no other engine writes any more
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # one batch runs some 80 generated classes; Spark's cache of 100 is four of 25, and one that overflows misses always
    "spark.sql.codegen.cache.maxEntries": "1000",
    # a table's checksums would list its first files, for which Delta reads its log anew after a commit
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # Spark keeps Python workers per environment, and this sets a variable for all but transformWithState: with it a
    # second set of workers is started, each of which imports everything anew
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

BUSY_MACHINE: dict[str, str] = {
    # seconds that our Python and the JVM wait for each other to connect: by default 15
    "spark.python.authenticate.socketTimeout": "120s",
    # the clock of a batch is broadcast, and a batch may wait for a free executor however long: by default 300 s
    "spark.sql.broadcastTimeout": "-1",
}
"""The ten seconds for a Python worker that is not forked have no setting: such a step is tried again (``failures``)."""

BOUNDED_MEMORY: dict[str, str] = {
    # Java's serializer keeps all that it wrote or read until it is reset, by default every 100 objects: the cached
    # blobs of a whole partition, though their storage level is the disk
    "spark.serializer.objectStreamReset": "1",
    # of the heap, for the row groups of all Parquet files that are being written: the rest of it is not theirs
    "spark.hadoop.parquet.memory.pool.ratio": "0.25",
}
"""Settings by which the heap of a batch does not grow with what it closes: emitted rows are on disk (``sinks``)."""

PROMETHEUS: Final = "spark.metrics.conf.*.sink.prometheusServlet"
"""Spark's setting of the page ``/metrics/prometheus`` of a driver's UI."""


def driver_metrics(stream: str) -> dict[str, str]:
    """Return settings that show Spark's metrics to Prometheus by the stream's name, instead of the driver's id."""
    return {
        "spark.metrics.namespace": stream,
        f"{PROMETHEUS}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{PROMETHEUS}.path": "/metrics/prometheus",
        "spark.sql.streaming.metricsEnabled": "true",
    }


def spare_small_rows(spark: SparkSession, max_event_bytes: int) -> None:
    """Have Spark not weigh Arrow batches of small rows, which takes a tenth of the executors' time."""
    if max_event_bytes <= SMALL_ROW:
        spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", 2**31 - 1)


def class_path(master: str) -> dict[str, str]:
    """Return the settings that give Spark our jars. On one machine they are on the class path of each JVM.

    ``spark.jars`` would copy them for every session, and every streaming query is a session. Spark also closes the
    class loader of an old session with a query of a new one still in it.
    """
    if is_local_master(master):
        return {f"spark.{process}.extraClassPath": f"{jar_folder()}/*" for process in ("driver", "executor")}
    return {"spark.jars": ",".join(str(jar) for jar in sorted(jar_folder().glob("*.jar")))}


def spark_session(
    application: str, master: str | None = None, extra: Mapping[str, str] | None = None, *, local_data: bool = True
) -> SparkSession:
    """Start (or find) the session of ``application``.

    ``master`` is for a program started as plain Python. Under spark-submit it is None and submit decides.
    ``local_data``: whether checkpoints are on a file system that is mounted here. Raises JvmNotStarted.
    """
    check_client_version()
    from pyspark import SparkConf  # noqa: PLC0415  the version check must come first

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _let_local_workers_import_us()
    settings = {**EXACTNESS, **DELTA, **THROUGHPUT, **BUSY_MACHINE, **BOUNDED_MEMORY}
    settings |= {f"{HADOOPS}{name}": value for name, value in hadoop_settings(os.environ).items()}
    settings["spark.app.name"] = application
    _take_scratch(own=master is not None)
    if master is not None:
        for name, value in DRIVER_MEMORY.items():
            os.environ.setdefault(name, value)
        os.environ.update(LOCALE_VARIABLES)
        settings |= class_path(master)
        settings |= {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.master": master}
        if is_local_master(master):
            settings |= {**launch_settings(jar_folder()), **_local_settings(local_data=local_data)}
            settings |= {"spark.ui.showConsoleProgress": "false"}
            if "SPARK_CONF_DIR" not in os.environ:  # else Spark makes an empty folder where the command was typed
                settings |= {"spark.sql.warehouse.dir": f"{os.environ[SCRATCH]}/warehouse"}
        else:
            settings |= cluster_locale()
    conf = SparkConf().setAll([*{**settings, **(extra or {})}.items()])
    spark = _started(conf, own=master is not None)
    if master is None:
        _fill_in_local_settings(spark, local_data=local_data)
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  the version check must come first

    # PySpark's own log of the errors it raises is JSON with the JVM's whole stack
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    set_log_level(spark)
    return spark


def set_log_level(spark: SparkSession) -> None:
    """Set the level of the JVM's log to the one that the user chose."""
    spark.sparkContext.setLogLevel(os.environ.get("SESSIONIZER_LOG_LEVEL", "WARN"))


@cache
def _take_scratch(*, own: bool) -> None:
    """Give the JVM a private folder for temporary files. That of a JVM which started us is in the environment."""
    if own:
        os.environ.update(scratch_environment(os.environ))
    hold_scratch(os.environ)


def _started(conf: SparkConf, *, own: bool) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415  the version check must come first
    from pyspark.sql import SparkSession  # noqa: PLC0415

    try:
        if own and not plain():
            start_context(conf)
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() == "JAVA_GATEWAY_EXITED":  # it ended before it could be reached
            raise JvmNotStarted from error
        raise


@lru_cache(maxsize=1)
def jvm_version(spark: SparkSession) -> str:
    """Return the version of the JVM that Spark runs in. The first call takes a third of a second."""
    row = spark.sql("select java_method('java.lang.System', 'getProperty', 'java.version') version").first()
    return str(row.version) if row else ""


def _fill_in_local_settings(spark: SparkSession, *, local_data: bool) -> None:
    """Set local settings once the master is known, which under spark-submit is only now. Submitted settings win."""
    submitted = spark.sparkContext.getConf()
    if not is_local_master(spark.sparkContext.master or ""):
        return
    for name, value in _local_settings(local_data=local_data).items():
        if submitted.get(name) is None:
            spark.conf.set(name.removeprefix(HADOOPS), value)


def _local_settings(*, local_data: bool) -> dict[str, str]:
    return {**session_settings(), **(local_checkpoint_settings() if local_data else {})}


def _let_local_workers_import_us() -> None:
    roots = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    root = str(PACKAGE.parent)
    if root not in roots:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, roots)])


def check_client_version() -> None:
    """Check the version of pyspark-client in the folder of pyspark: another version silently replaces its files."""
    try:
        found = [importlib.metadata.distribution(name) for name in ("pyspark", "pyspark-client")]
    except importlib.metadata.PackageNotFoundError:  # drivers need no client
        return
    versions = {each.name: each.version for each in found}
    if len(set(versions.values())) != 1 and len({each.locate_file("") for each in found}) == 1:
        raise ImportError(f"pyspark and pyspark-client must be of one version, found {versions}")


def noting(spark: SparkSession, note: str) -> AbstractContextManager[None]:
    """Return a context whose commits have ``note`` in the tables' history, by which they are known as ours."""
    return temporary_settings(spark, {"spark.databricks.delta.commitInfo.userMetadata": note})


@contextmanager
def temporary_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set ``settings`` for the block, and restore the values before, also unset ones."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
