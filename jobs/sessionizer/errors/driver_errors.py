"""Errors of drivers: the right to drive, the launch, the end of a query, and files, disks and stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sessionizer.errors.tree import RetryEffect, TerminalError, TransientError

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath


class LeaseHeld(TerminalError):
    """A live process, a driver or a command, has the lease of ``stream``. A second one is refused."""

    exit_code = 14
    title = "another process has the lease"
    verdict = RetryEffect.TRANSIENT
    remedy = (
        "wait until the process ends: `sessionizer status` tells what it does. End a driver with `sessionizer stop …`"
    )

    def __init__(self, stream: str, uid: str, pid: int, host: str) -> None:
        self.stream, self.uid, self.pid, self.host = stream, uid, pid, host
        super().__init__(f"the lease of stream {stream!r} is held by {uid} (pid {pid} on {host})")


class LeaseLost(TerminalError):
    """A newer process took over (``newest`` token > ours). Rows that we write now could be written twice."""

    exit_code = 15
    title = "another process took over the lease"
    verdict = RetryEffect.TRANSIENT
    remedy = "do nothing: the other process continues"

    def __init__(self, stream: str, token: int, newest: int) -> None:
        self.stream, self.token, self.newest = stream, token, newest
        reason = (
            f"token {newest} is newer" if newest > token else "its lease record is gone or belongs to another process"
        )
        super().__init__(
            f"this process lost the lease of stream {stream!r}: it holds fencing token {token}, but {reason}"
        )


class DriverStillRuns(TransientError):
    """The driver or command ``uid`` of ``stream`` was asked to stop, and had not ended after ``waited_s`` seconds."""

    exit_code = 3
    title = "a process has not ended yet"
    remedy = (
        "wait until its batch or command is over (`sessionizer status`), then try again. Or wait longer with --wait"
    )

    def __init__(self, stream: str, uid: str, waited_s: float) -> None:
        self.stream, self.uid, self.waited_s = stream, uid, waited_s
        super().__init__(f"process {uid} of stream {stream!r} still runs {waited_s:g} s after the request to stop")


class QueryFailed(TerminalError):
    """The streaming query ended with ``cause`` (a condition name), and would end the same way again."""

    exit_code = 16

    def __init__(self, stream: str, cause: str, detail: str) -> None:
        self.stream, self.cause, self.detail = stream, cause, detail
        super().__init__(f"the query of stream {stream!r} failed ({cause}): {detail}")


class QueryInterrupted(TransientError):
    """The streaming query ended with a ``cause`` in its surroundings, not in its input or code."""

    exit_code = 22

    def __init__(self, stream: str, cause: str, detail: str) -> None:
        self.stream, self.cause, self.detail = stream, cause, detail
        super().__init__(f"the query of stream {stream!r} was interrupted ({cause}): {detail}")


class PrivateDoorBroken(TerminalError):
    """A private part of Spark, Delta or PySpark that ``door`` uses is not there: ``missing`` names it."""

    exit_code = 16
    title = "a private part of Spark or Delta has moved"
    remedy = (
        "set SESSIONIZER_PLAIN_SPARK=1 where drivers are started. They then use public interfaces only: slower, and as "
        "exact. Or return to the earlier Spark and Delta"
    )

    def __init__(self, door: str, missing: str) -> None:
        self.door, self.missing = door, missing
        super().__init__(f"the private part {door!r} of Spark or Delta has changed: {missing}")


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


class UnwritablePath(TerminalError):
    """``path`` is needed as ``purpose`` but cannot be written: ``cause``."""

    exit_code = 13
    title = "a path cannot be written"
    of_any_lineage = True
    remedy = (
        "make the path writable, or choose another: by the option that names it, --home (SESSIONIZER_HOME) or "
        "sink.path in the spec"
    )

    def __init__(self, path: Path | str, purpose: str, cause: str) -> None:
        self.path, self.purpose, self.cause = path, purpose, cause
        super().__init__(f"cannot write {purpose} at {path}: {cause}")

    def advise(self) -> str | None:
        """Return another place for a result that is not overwritten, or the way of a store's keys to the driver."""
        if "redentials" in self.cause:
            return "set the store's variables, and name them for drivers: SESSIONIZER_DRIVER_ENVIRONMENT='AWS_*'"
        return "give --to a folder that does not exist yet" if self.purpose == "the result" else None


class UnreadablePath(TerminalError):
    """``path`` may not be read by this process: ``cause``."""

    exit_code = 13
    title = "a path may not be read"
    remedy = (
        "run this as the user who owns the path. Or let this user read it: add the user to its group, and give the "
        "group that right (`chmod g+rX`). Nothing is damaged"
    )

    def __init__(self, path: Path | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"{path} may not be read: {cause}")


class NoWorkingFolder(TerminalError):
    """The folder in which the command was typed was deleted."""

    title = "the current folder was deleted"
    remedy = "choose a folder that exists (`cd`)"

    def __init__(self) -> None:
        super().__init__("the current folder is not there any more")


class DamagedFile(TerminalError, ValueError):
    """A file of ours or of Spark at ``path`` that exists or must exist, but whose content is lost: ``cause``."""

    exit_code = 17
    title = "a control file is damaged"
    of_any_lineage = True
    remedy = (
        "restore the file from a copy, because no other file has its content. Without desired.json the desired state "
        "is RUNNING. You may delete spec.json if the stream's file is the spec that last ran"
    )

    def __init__(self, path: Path | UPath | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"{path} is damaged: {cause}")

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


class UnforeseenContent(TerminalError):
    """A file of ``stream`` has content that no check expects: ``error`` arose when it was used."""

    exit_code = 17
    title = "a file of the stream has unexpected content"
    remedy = (
        "run `sessionizer bundle {error.stream}` and report this with its file. The log has the place. Restore the "
        "file that was changed last from a copy"
    )

    def __init__(self, stream: str, error: Exception) -> None:
        self.stream, self.error = stream, error
        super().__init__(f"stream {stream!r} cannot be shown: {type(error).__name__}: {str(error)[:200]}")


class ControlUnreachable(TransientError):
    """The file or folder at ``path`` cannot be reached just now: ``cause`` (a stale mount, too many open files)."""

    exit_code = 23
    title = "the control directory cannot be reached"
    remedy = "check the mount and the limit of open files"

    def __init__(self, path: Path | UPath | str, cause: str) -> None:
        self.path, self.cause = path, cause
        super().__init__(f"cannot reach {path}: {cause}")


class DiskFull(TransientError):
    """``path`` is needed as ``purpose``, and there is no room for it (or no quota) just now: ``detail``."""

    exit_code = 24
    cause: ClassVar[str] = "disk_full"
    title = "a disk is full"
    remedy = "free some space. Airflow then resumes the stream. Run a typed command again"

    def __init__(self, path: Path | str, purpose: str, detail: str) -> None:
        self.path, self.purpose, self.detail = path, purpose, detail
        super().__init__(f"no disk space for {purpose} at {path}: {detail}")


class StoreUnreachable(TransientError):
    """The store, name node or metastore of ``path``, needed as ``purpose``, does not answer just now: ``detail``."""

    exit_code = 25
    cause: ClassVar[str] = "unreachable"

    def __init__(self, path: Path | str, purpose: str, detail: str) -> None:
        self.path, self.purpose, self.detail = path, purpose, detail
        super().__init__(f"the store of {purpose} at {path} does not answer: {detail}")
