"""The one interface behind which drivers are started, wherever they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sessionizer.causes.table import CAUSES
from sessionizer.errors import HomeNotShared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.causes.cause import Cause
    from sessionizer.control.records.launch_record import LaunchRecord
    from sessionizer.control.records.process_identity import ProcessIdentity
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.launching.argv import DriverCall


@dataclass(frozen=True, kw_only=True)
class DriverTraces:
    """By what driver ``uid`` can be found: its launch, if it was launched from here, and the known processes."""

    uid: str
    launch: LaunchRecord | None = None
    processes: tuple[ProcessIdentity, ...] = ()


@dataclass(frozen=True)
class DriverObservation:
    """Whether a driver lives (None: nobody here can tell), and what was said about it, for people.

    ``cause`` is what keeps it from its work, where that is known.
    """

    alive: bool | None
    said: str = ""
    cause: Cause | None = None


def cause_of_exit(codes: Iterable[str]) -> Cause | None:
    """What drivers that left no exit record ended of, by the exit ``codes`` that a cluster tells; None: it may be all.

    One that does not see our home can leave none.
    """
    return CAUSES[HomeNotShared.__name__] if str(HomeNotShared.exit_code) in codes else None


class Launcher(Protocol):
    """Starts drivers that live on without us, and ends those that no longer listen.

    Ending is only tidying: a driver's right to write is taken by fencing its lease, before.
    """

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        """Start the driver and return at once; the launch is on record before the process exists, and after.

        Raises SparkConnectionMissing: the connection is not there.
        Raises UnusableConnection: it names a place where drivers cannot run.
        Raises ProgramMissing: the program that starts Spark jobs is not there.
        """

    def look_for(self, traces: DriverTraces) -> DriverObservation:
        """Ask whoever runs the driver whether it lives.

        Raises ClusterUnreachable: there was no answer.
        """

    def last_words(self, traces: DriverTraces) -> list[str]:
        """The end of what the driver printed where that is not in the log of its launch, fit to be shown.

        Empty where there is nothing or nobody answers.
        """

    def end_by_force(self, traces: DriverTraces) -> None:
        """Kill the driver, and return only when it is gone.

        Raises DriverWouldNotEnd: it is still there.
        Raises DriverOutOfReach: it is a process of a machine that we cannot reach.
        Raises ClusterUnreachable: the cluster that runs it did not answer.
        """
