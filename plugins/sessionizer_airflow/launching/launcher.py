"""The one interface behind which drivers are started, wherever they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sessionizer.control.process_identity import ProcessIdentity
    from sessionizer.control.stream_home import StreamHome
    from sessionizer_airflow.argv import DriverCall
    from sessionizer_airflow.launching.launch_record import LaunchRecord


class Launcher(Protocol):
    """Starts drivers that live on without us, and ends those that no longer listen."""

    def launch(self, home: StreamHome, call: DriverCall) -> LaunchRecord:
        """Start the driver and return at once; the launch is on record before the process exists, and after.

        :raises SparkConnectionMissing: the connection is not there.
        :raises SparkSubmitMissing: the program that starts Spark jobs is not there.
        """

    def end_by_force(self, process: ProcessIdentity) -> None:
        """Kill the driver, and return only when its process is gone.

        :raises DriverWouldNotEnd: it is still there.
        :raises DriverOutOfReach: it is on a machine that we cannot reach.
        """
