"""Errors that keep a driver from being launched, from working where it was launched, or from being ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors.tree import TerminalError, TransientError

if TYPE_CHECKING:
    from pathlib import Path


class JvmNotStarted(TerminalError):
    """Spark's JVM ended before it could be reached. What it printed is on stderr."""

    exit_code = 67
    title = "no JVM starts"
    remedy = "run `sessionizer doctor`, which checks Java and the jars. The lines above have the JVM's own words"

    def __init__(self) -> None:
        super().__init__("Spark did not start, because its JVM ended at once")


class JarsNotFetched(TransientError):
    """The jars of drivers could not be brought to ``folder``: ``cause``."""

    exit_code = 65
    title = "the jars could not be fetched"
    remedy = (
        "run it again with Java on the PATH, access to Maven Central, and the Python that has PySpark. Or copy the "
        "jars from another machine, and set SESSIONIZER_JARS to their folder"
    )

    def __init__(self, folder: Path, cause: str) -> None:
        self.folder, self.cause = folder, cause
        super().__init__(f"cannot fetch the jars of drivers to {folder}: {cause}")


class HomeNotShared(TerminalError):
    """The driver on ``host`` was launched from another home than the one at ``path`` there: it lacks ``missing``.

    It has an exit code of its own, because the launcher only knows what the cluster reports.
    """

    exit_code = 33
    title = "the home is not shared"
    of_any_lineage = True
    remedy = (
        "mount the home (SESSIONIZER_HOME) at the same path on each machine that runs drivers (docs/spark-clusters.md)"
    )

    def __init__(self, path: Path, host: str, missing: str = "the log of its launch") -> None:
        self.path, self.host, self.missing = path, host, missing
        super().__init__(f"the home at {path} on {host} is not the home that launched this driver: it lacks {missing}")


class ExecutorsUnfit(TerminalError):
    """The executors cannot do a stream's work: ``cause``. ``host`` is the host of one of them, if known."""

    exit_code = 13
    title = "the executors lack something"
    remedy = (
        "give the cluster's machines the driver's Python with the packages of requirements.lock "
        "(spark.pyspark.python). Set SESSIONIZER_DATA to a place that all of them can write (docs/spark-clusters.md)"
    )

    def __init__(self, cause: str, host: str | None = None) -> None:
        self.cause, self.host = cause, host
        which = "the executors" if host is None else f"the executor on {host}"
        super().__init__(f"{which} cannot run this stream: {cause}")


class SparkConnectionMissing(TerminalError):
    """Airflow has no connection ``name``, so the Spark master is unknown."""

    title = "there is no Spark connection"
    remedy = (
        "run `airflow connections add {error.name} --conn-type spark --conn-host <master>` (docs/spark-clusters.md)"
    )

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Airflow has no connection {name!r}, which names the Spark master")


class UnusableConnection(TerminalError):
    """Drivers cannot run by ``connection``, because its ``field`` is ``value``. ``allowed`` says which values are."""

    title = "the Spark connection is wrong"
    remedy = "correct {error.field} of the connection {error.connection}"

    def __init__(self, connection: str, field: str, value: object, allowed: str) -> None:
        self.connection, self.field, self.value, self.allowed = connection, field, value, allowed
        super().__init__(f"connection {connection!r}: {field} is {value!r}. Use {allowed}")


class KubernetesSupportMissing(TerminalError):
    """``connection`` names a Kubernetes master, for which the Spark provider needs a package that is not installed."""

    title = "the client of Kubernetes is missing"
    remedy = "run `pip install 'apache-airflow-providers-apache-spark[cncf-kubernetes]'`"

    def __init__(self, connection: str) -> None:
        self.connection = connection
        super().__init__(
            f"connection {connection!r} names a Kubernetes master, but the Spark provider lacks its client"
        )


class LookupNotInstalled(TerminalError):
    """The packages that read Delta tables without Spark are missing."""

    title = "the reader of Delta tables is missing"
    remedy = "run `pip install 'streaming-state[lookup]'` in the Python of this process"

    def __init__(self) -> None:
        super().__init__("the package deltalake or pyarrow is missing, which reads the tables without Spark")


class ResourceManagerUnknown(TerminalError):
    """Drivers would run in YARN, but neither Hadoop's configuration nor the connection names its ResourceManager."""

    title = "YARN's configuration is missing"
    remedy = (
        "set HADOOP_CONF_DIR for Airflow's processes to the cluster's configuration, or give the Spark connection the "
        "extra resource-manager, such as http://<host>:8088"
    )

    def __init__(self) -> None:
        super().__init__(
            "it is not known where YARN's ResourceManager answers: neither HADOOP_CONF_DIR nor YARN_CONF_DIR names a "
            "folder with a yarn-site.xml"
        )


class ProgramMissing(TerminalError):
    """The ``program`` that starts or ends Spark jobs is not on the PATH."""

    title = "a program is missing"
    remedy = "install {error.program} for the Airflow worker, or put it on its PATH"

    def __init__(self, program: str) -> None:
        self.program = program
        super().__init__(f"{program} is not on the PATH of the Airflow worker")


class ReleaseBroken(TerminalError):
    """The driver's program does not load in ``python``: ``said`` is the last line that it printed."""

    exit_code = 68
    title = "the installed release does not load"
    remedy = "install the release again, with every package that it needs (`sessionizer doctor`). Nothing was changed"

    def __init__(self, python: str, said: str) -> None:
        self.python, self.said = python, said
        super().__init__(f"the driver's program does not load in {python}: {said}")


class ClusterUnreachable(TransientError):
    """The cluster manager did not answer ``command`` for ``cause``."""

    title = "the cluster does not answer"
    remedy = "check that `{error.asked}` answers on the Airflow worker"

    def __init__(self, command: tuple[str, ...], cause: str) -> None:
        self.command, self.cause, self.asked = command, cause, " ".join(command)
        super().__init__(f"no answer to `{self.asked}`: {cause}")


class DriverOutOfReach(TransientError):
    """The driver's process ``pid`` is on another ``host``: it ends itself there, or must be ended."""

    title = "a driver is out of reach"
    remedy = "end process {error.pid} on {error.host} (`kill -9 {error.pid}`), or make sure that {error.host} is down"

    def __init__(self, pid: int, host: str) -> None:
        self.pid, self.host = pid, host
        super().__init__(f"the driver's process {pid} is on {host}, out of reach from here")


class DriverWouldNotEnd(TransientError):
    """``what`` (a process, an application of a cluster) is still there after it was killed."""

    title = "a driver would not end"
    remedy = "find out why it cannot be killed: a disk or mount may hang"

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} is still there after it was killed")
