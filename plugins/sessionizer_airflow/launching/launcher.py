"""The one interface for starting drivers, wherever they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sessionizer.causes.table import CAUSES
from sessionizer.errors import HomeNotShared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.causes.cause import Cause
    from sessionizer.control.records.process_records import LaunchRecord, ProcessIdentity
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.launching.argv import DriverCall


@dataclass(frozen=True, kw_only=True)
class DriverTraces:
    """Traces by which driver ``uid`` is found: its launch, if it was launched from here, and its known processes."""

    uid: str
    launch: LaunchRecord | None = None
    processes: tuple[ProcessIdentity, ...] = ()


@dataclass(frozen=True)
class DriverObservation:
    """Answer to whether a driver lives (None: unknown here), and a line about it for users.

    ``cause`` is the known reason that keeps it from its work, if any.
    """

    alive: bool | None
    said: str = ""
    cause: Cause | None = None


def cause_of_exit(codes: Iterable[str]) -> Cause | None:
    """Return the cause of a driver's end without exit record, by the exit ``codes`` that a cluster reports.

    None means that any cause is possible. A driver that does not see our home cannot write an exit record.
    """
    return CAUSES[HomeNotShared.__name__] if str(HomeNotShared.exit_code) in codes else None


class Launcher(Protocol):
    """Interface that starts drivers, which outlive the caller, and ends drivers that do not answer.

    Ending a driver only tidies up, because fencing its lease has taken its right to write before.
    """

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        """Start the driver and return at once. The launch is recorded before the process exists, and after.

        Raises SparkConnectionMissing: the connection is not there.
        Raises UnusableConnection: it names a place where drivers cannot run.
        Raises ProgramMissing: the program that starts Spark jobs is not there.
        """

    def look_for(self, traces: DriverTraces) -> DriverObservation:
        """Ask the operating system or the cluster manager whether the driver lives.

        Raises ClusterUnreachable: there was no answer.
        """

    def last_words(self, traces: DriverTraces) -> list[str]:
        """Return the end of the driver's output that is not in the log of its launch, without credentials.

        Empty if there is none or no answer.
        """

    def end_by_force(self, traces: DriverTraces) -> None:
        """Kill the driver, and return only when it is gone.

        Raises DriverWouldNotEnd: it is still there.
        Raises DriverOutOfReach: it is a process of a machine that we cannot reach.
        Raises ClusterUnreachable: the cluster that runs it did not answer.
        """
