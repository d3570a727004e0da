"""Errors between Airflow and a driver. The tree that they extend is in ``sessionizer.errors``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.causes.cause import name_stream
from sessionizer.errors import TerminalError, TransientError, every_problem
from sessionizer.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class BrokenSpecs(TerminalError):
    """Spec files that cannot be loaded. ``problems`` has the error of each."""

    def __init__(self, problems: Iterable[TerminalError]) -> None:
        self.problems = tuple(problems)
        every = (each for problem in self.problems for each in every_problem(problem))
        found = "\n".join(f"- {redacted(str(each))}" for each in every)
        super().__init__(f"{len(self.problems)} broken in the folder of streams:\n{found}")


class HomeMissing(TerminalError):
    """``variable``, the platform's home, is not set or relative. In Airflow it has no default."""

    def __init__(self, variable: str) -> None:
        self.variable = variable
        super().__init__(
            f"{variable} is not set to an absolute path: give the same to all processes of Airflow "
            "(scheduler, workers, triggerer, DAG processor, API server)"
        )


class SparkConnectionMissing(TerminalError):
    """Airflow has no connection ``name``, so the Spark master is unknown."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Airflow has no connection {name!r}, which names the Spark master")


class UnusableConnection(TerminalError):
    """Drivers cannot run by ``connection``, because its ``field`` is ``value``. ``allowed`` says which values are."""

    def __init__(self, connection: str, field: str, value: object, allowed: str) -> None:
        self.connection, self.field, self.value, self.allowed = connection, field, value, allowed
        super().__init__(f"connection {connection!r}: {field} is {value!r}. Use {allowed}")


class UnusableDatabaseConnection(TerminalError):
    """``connection`` cannot be used for a database, because of ``problem``. ``remedy`` says what to do."""

    def __init__(self, connection: str, problem: str, remedy: str) -> None:
        self.connection, self.problem, self.remedy = connection, problem, remedy
        super().__init__(f"connection {connection!r}: {problem}")


class KubernetesSupportMissing(TerminalError):
    """``connection`` names a Kubernetes master, for which the Spark provider needs a package that is not installed."""

    def __init__(self, connection: str) -> None:
        self.connection = connection
        super().__init__(
            f"connection {connection!r} names a Kubernetes master, but the Spark provider lacks its client"
        )


class ProgramMissing(TerminalError):
    """The ``program`` that starts or ends Spark jobs is not on the PATH."""

    def __init__(self, program: str) -> None:
        self.program = program
        super().__init__(f"{program} is not on the PATH of the Airflow worker")


class ClusterUnreachable(TransientError):
    """The cluster manager did not answer ``command`` for ``cause``."""

    def __init__(self, command: tuple[str, ...], cause: str) -> None:
        self.command, self.cause, self.asked = command, cause, " ".join(command)
        super().__init__(f"no answer to `{self.asked}`: {cause}")


class ResourceManagerUnknown(TerminalError):
    """Drivers would run in YARN, but neither Hadoop's configuration nor the connection names its ResourceManager."""

    def __init__(self) -> None:
        super().__init__(
            "it is not known where YARN's ResourceManager answers: neither HADOOP_CONF_DIR nor YARN_CONF_DIR names a "
            "folder with a yarn-site.xml"
        )


class SupervisionEnded(TerminalError):
    """The supervisor of ``stream`` gave up for ``reason``. ``remedy`` tells the user what to do."""

    def __init__(self, stream: str, reason: str, remedy: str) -> None:
        self.stream, self.reason, self.remedy = stream, reason, name_stream(remedy, stream)
        super().__init__(redacted(f"gave up on {stream}: {reason}. What to do: {self.remedy}"))


class OrphanedDrivers(TerminalError):
    """Drivers run whose streams have no spec. ``lines`` has one for each, ``remedy`` says what to do."""

    def __init__(self, lines: list[str], remedy: str) -> None:
        self.lines, self.remedy = tuple(lines), remedy
        super().__init__("; ".join(lines))


class UnwatchedStreams(TerminalError):
    """Streams that should run do not, and no supervisor acts.

    ``lines`` has one for each, ``remedy`` says what to do.
    """

    def __init__(self, lines: list[str], remedy: str) -> None:
        self.lines, self.remedy = tuple(lines), remedy
        super().__init__("; ".join(lines))


class StuckOperations(TerminalError):
    """Commands that have streams and no process. ``lines`` has one for each, ``remedy`` says what to do."""

    def __init__(self, lines: list[str], remedy: str) -> None:
        self.lines, self.remedy = tuple(lines), remedy
        super().__init__("; ".join(lines))


class SavepointsNotRemoved(TerminalError):
    """Old savepoints could not be deleted. ``lines`` has one for each stream, ``remedy`` says what to do."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = tuple(lines)
        self.remedy = (
            "correct what the message names. `sessionizer savepoint prune <stream> --plan` shows what would be removed"
        )
        super().__init__(redacted("; ".join(lines)))


class PlanImpossible(TerminalError):
    """The requested ``verb`` is not possible for ``stream``. ``text`` is its plan, which says why."""

    def __init__(self, stream: str, verb: str, text: str) -> None:
        self.stream, self.verb, self.text = stream, verb, text
        elsewhere = f". Or choose a savepoint that needs none of it: `sessionizer savepoint list {stream}`"
        self.remedy = (
            "put back what the plan names, then run this DAG again. If the plan changes nothing, you need not act"
        )
        self.remedy += elsewhere if verb == "restore" else ""
        super().__init__(text)


class JobFailed(TerminalError):
    """A batch job ended with one of our errors: its ``message``, and the ``remedy`` that it printed."""

    def __init__(self, message: str, remedy: str) -> None:
        self.message, self.remedy = message, remedy
        super().__init__(redacted(message))


class WatchCancelled(TransientError):
    """A user or Airflow ended the task that worked for ``stream``."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        super().__init__(f"the watch of {stream} was cancelled")


class DriverWouldNotEnd(TransientError):
    """``what`` (a process, an application of a cluster) is still there after it was killed."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} is still there after it was killed")


class DriverOutOfReach(TransientError):
    """The driver's process ``pid`` is on another ``host``: it ends itself there, or must be ended."""

    def __init__(self, pid: int, host: str) -> None:
        self.pid, self.host = pid, host
        super().__init__(f"the driver's process {pid} is on {host}, out of reach from here")


class AirflowUnavailable(TransientError):
    """The API server refused or did not answer ``verb`` ``path``: ``cause``."""

    def __init__(self, verb: str, path: str, cause: str) -> None:
        self.verb, self.path, self.cause = verb, path, cause
        super().__init__(f"Airflow: {verb} {path}: {cause}")


class DemoIsRunning(TerminalError):
    """Another demo runs in the folder ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(f"a demo is already running in {root}")


class DemoBroke(TerminalError):
    """The processes ``parts`` of the demo have ended. Their ``logs`` say why."""

    def __init__(self, parts: list[str], logs: Path) -> None:
        self.parts, self.logs = tuple(parts), logs
        super().__init__(f"{', '.join(parts)} ended unexpectedly; see {logs}")
