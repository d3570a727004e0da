"""Errors of drivers: the right to drive, the launch, the end of a query, and files, disks and stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.errors.tree import OfStream, RetryEffect, TerminalError, TransientError

if TYPE_CHECKING:
    from upath import UPath


class LeaseHeld(OfStream, TerminalError, exit_code=14, verdict=RetryEffect.TRANSIENT):
    title = "another process has the lease"
    message = "the lease of stream {0.stream!r} is held by {0.uid} (pid {0.pid} on {0.host})"
    remedy = (
        "wait until the process ends: `sessionizer status` tells what it does. End a driver with `sessionizer stop …`"
    )
    uid: str
    pid: int
    host: str


class LeaseLost(OfStream, TerminalError, exit_code=15, verdict=RetryEffect.TRANSIENT):
    title = "another process took over the lease"
    remedy = "do nothing: the other process continues"
    token: int
    newest: int

    def __str__(self) -> str:
        newer, gone = f"token {self.newest} is newer", "its lease record is gone or belongs to another process"
        lost = f"this process lost the lease of stream {self.stream!r}: it holds fencing token {self.token}"
        return f"{lost}, but {newer if self.newest > self.token else gone}"


class DriverStillRuns(OfStream, TransientError, exit_code=3):
    title = "a process has not ended yet"
    message = "process {0.uid} of stream {0.stream!r} still runs {0.waited_s:g} s after the request to stop"
    remedy = (
        "wait until its batch or command is over (`sessionizer status`), then try again. Or wait longer with --wait"
    )
    uid: str
    waited_s: float


class QueryFailed(OfStream, TerminalError, exit_code=16):
    """An end of the query by a ``cause`` of its input or code, so that it would end the same way again."""

    message = "the query of stream {0.stream!r} failed ({0.cause}): {0.detail}"
    cause: str
    detail: str


class QueryInterrupted(OfStream, TransientError, exit_code=22):
    """An end of the query by a ``cause`` in its surroundings."""

    message = "the query of stream {0.stream!r} was interrupted ({0.cause}): {0.detail}"
    cause: str
    detail: str


class PrivateDoorBroken(TerminalError, exit_code=16):
    title = "a private part of Spark or Delta has moved"
    message = "the private part {0.door!r} of Spark or Delta has changed: {0.missing}"
    remedy = (
        "set SESSIONIZER_PLAIN_SPARK=1 where drivers are started. They then use public interfaces only: slower, and as "
        "exact. Or return to the earlier Spark and Delta"
    )
    door: str
    missing: str


class JvmNotStarted(TerminalError, exit_code=67):
    title = "no JVM starts"
    message = "Spark did not start, because its JVM ended at once"
    remedy = "run `sessionizer doctor`, which checks Java and the jars. The lines above have the JVM's own words"


class JarsNotFetched(TransientError, exit_code=65):
    title = "the jars could not be fetched"
    message = "cannot fetch the jars of drivers to {0.folder}: {0.cause}"
    remedy = (
        "run it again with Java on the PATH, access to Maven Central, and the Python that has PySpark. Or copy the "
        "jars from another machine, and set SESSIONIZER_JARS to their folder"
    )
    folder: Path
    cause: str


class HomeNotShared(TerminalError, exit_code=33, of_any_lineage=True):
    """A driver in another home. Its exit code is its own, because the launcher knows only that."""

    title = "the home is not shared"
    message = "the home at {0.path} on {0.host} is not the home that launched this driver: it lacks {0.missing}"
    remedy = (
        "mount the home (SESSIONIZER_HOME) at the same path on each machine that runs drivers (docs/spark-clusters.md)"
    )
    path: Path
    host: str
    missing: str = "the log of its launch"


class ExecutorsUnfit(TerminalError, exit_code=13):
    title = "the executors lack something"
    remedy = (
        "give the cluster's machines the driver's Python with the packages of requirements.lock "
        "(spark.pyspark.python). Set SESSIONIZER_DATA to a place that all of them can write (docs/spark-clusters.md)"
    )
    cause: str
    host: str | None = None

    def __str__(self) -> str:
        which = "the executors" if self.host is None else f"the executor on {self.host}"
        return f"{which} cannot run this stream: {self.cause}"


class SparkConnectionMissing(TerminalError):
    title = "there is no Spark connection"
    message = "Airflow has no connection {0.name!r}, which names the Spark master"
    remedy = "run `airflow connections add {0.name} --conn-type spark --conn-host <master>` (docs/spark-clusters.md)"
    name: str


class UnusableConnection(TerminalError):
    title = "the Spark connection is wrong"
    message = "connection {0.connection!r}: {0.field} is {0.value!r}. Use {0.allowed}"
    remedy = "correct {0.field} of the connection {0.connection}"
    connection: str
    field: str
    value: object
    allowed: str


class KubernetesSupportMissing(TerminalError):
    title = "the client of Kubernetes is missing"
    message = "connection {0.connection!r} names a Kubernetes master, but the Spark provider lacks its client"
    remedy = "run `pip install 'apache-airflow-providers-apache-spark[cncf-kubernetes]'`"
    connection: str


class LookupNotInstalled(TerminalError):
    title = "the reader of Delta tables is missing"
    message = "the package deltalake or pyarrow is missing, which reads the tables without Spark"
    remedy = "run `pip install 'streaming-state[lookup]'` in the Python of this process"


class ResourceManagerUnknown(TerminalError):
    title = "YARN's configuration is missing"
    message = (
        "it is not known where YARN's ResourceManager answers: neither HADOOP_CONF_DIR nor YARN_CONF_DIR names a "
        "folder with a yarn-site.xml"
    )
    remedy = (
        "set HADOOP_CONF_DIR for Airflow's processes to the cluster's configuration, or give the Spark connection the "
        "extra resource-manager, such as http://<host>:8088"
    )


class ProgramMissing(TerminalError):
    title = "a program is missing"
    message = "{0.program} is not on the PATH of the Airflow worker"
    remedy = "install {0.program} for the Airflow worker, or put it on its PATH"
    program: str


class ReleaseBroken(TerminalError, exit_code=68):
    title = "the installed release does not load"
    message = "the driver's program does not load in {0.python}: {0.said}"
    remedy = "install the release again, with every package that it needs (`sessionizer doctor`). Nothing was changed"
    python: str
    said: str


class ClusterUnreachable(TransientError):
    title = "the cluster does not answer"
    message = "no answer to `{0.asked}`: {0.cause}"
    remedy = "check that `{0.asked}` answers on the Airflow worker"
    command: tuple[str, ...]
    cause: str

    @property
    def asked(self) -> str:
        """The command, as typed."""
        return " ".join(self.command)


class DriverOutOfReach(TransientError):
    title = "a driver is out of reach"
    message = "the driver's process {0.pid} is on {0.host}, out of reach from here"
    remedy = "end process {0.pid} on {0.host} (`kill -9 {0.pid}`), or make sure that {0.host} is down"
    pid: int
    host: str


class DriverWouldNotEnd(TransientError):
    title = "a driver would not end"
    message = "{0.what} is still there after it was killed"
    remedy = "find out why it cannot be killed: a disk or mount may hang"
    what: str


class UnwritablePath(TerminalError, exit_code=13, of_any_lineage=True):
    title = "a path cannot be written"
    message = "cannot write {0.purpose} at {0.path}: {0.cause}"
    remedy = (
        "make the path writable, or choose another: by the option that names it, --home (SESSIONIZER_HOME) or "
        "sink.path in the spec"
    )
    path: Path | str
    purpose: str
    cause: str
    instead: str | None = None
    """What to do in place of the usual remedy, such as to name another file."""

    def advise(self) -> str | None:
        """Return the remedy of who raised it, or the way of a store's keys to the driver."""
        if "redentials" in self.cause:
            return "set the store's variables, and name them for drivers: SESSIONIZER_DRIVER_ENVIRONMENT='AWS_*'"
        return self.instead


class UnreadablePath(TerminalError, exit_code=13):
    title = "a path may not be read"
    message = "{0.path} may not be read: {0.cause}"
    remedy = (
        "run this as the user who owns the path. Or let this user read it: add the user to its group, and give the "
        "group that right (`chmod g+rX`). Nothing is damaged"
    )
    path: Path | str
    cause: str


class NoWorkingFolder(TerminalError):
    title = "the current folder was deleted"
    message = "the current folder is not there any more"
    remedy = "choose a folder that exists (`cd`)"


class DamagedFile(TerminalError, ValueError, exit_code=17, of_any_lineage=True):
    """A file of ours or of Spark that exists or must exist, but whose content is lost."""

    title = "a control file is damaged"
    message = "{0.path} is damaged: {0.cause}"
    remedy = (
        "restore the file from a copy, because no other file has its content. Without desired.json the desired state "
        "is RUNNING. You may delete spec.json if the stream's file is the spec that last ran"
    )
    path: Path | UPath | str
    cause: str

    def advise(self) -> str | None:
        """Return the way back for this file."""
        name = str(self.path).rpartition("/")[2]
        if name == "home.json":
            return (
                f"restore {self.path} from a copy, or write the id into it again. The id is in the checkpoint.json of "
                "each lineage, after the @ of owner"
            )
        if name != "spec.json":
            return None
        return (
            f"restore {self.path} from a copy. If you know that the stream's file is the spec that last ran, delete it "
            "instead: the next driver then records the stream's file"
        )


class UnforeseenContent(OfStream, TerminalError, exit_code=17):
    title = "a file of the stream has unexpected content"
    remedy = (
        "run `sessionizer bundle {0.stream}` and report this with its file. The log has the place. Restore the "
        "file that was changed last from a copy"
    )
    error: Exception

    def __str__(self) -> str:
        return f"stream {self.stream!r} cannot be shown: {type(self.error).__name__}: {str(self.error)[:200]}"


class ControlUnreachable(TransientError, exit_code=23):
    """A path that cannot be reached just now: a stale mount, too many open files."""

    title = "the control directory cannot be reached"
    message = "cannot reach {0.path}: {0.cause}"
    remedy = "check the mount and the limit of open files"
    path: Path | UPath | str
    cause: str


class DiskFull(TransientError, exit_code=24):
    cause = "disk_full"
    title = "a disk is full"
    message = "no disk space for {0.purpose} at {0.path}: {0.detail}"
    remedy = "free some space. Airflow then resumes the stream. Run a typed command again"
    path: Path | str
    purpose: str
    detail: str


class StoreUnreachable(TransientError, exit_code=25):
    cause = "unreachable"
    message = "the store of {0.purpose} at {0.path} does not answer: {0.detail}"
    path: Path | str
    purpose: str
    detail: str
