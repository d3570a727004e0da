"""Drivers of a stream as processes: their launch, their traces, and their end by force. Knows nothing of Airflow."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sessionizer.causes.table import cause_of_error
from sessionizer.control.lease import fence, read_lease
from sessionizer.control.records.process_records import LAUNCH_FILE, read_launch
from sessionizer.errors import ClusterUnreachable, SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer_airflow.launching.argv import DriverCall
from sessionizer_airflow.launching.launcher import DriverObservation, DriverTraces

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.launching.launcher import Launcher
    from sessionizer_airflow.project import Folders
    from sessionizer_airflow.supervision.tell import Say


@dataclass
class Drivers:
    """Drivers of one stream. ``say`` takes one line for each action.

    ``being_ended``: the driver whose end has begun, and is not known to be complete.
    """

    stream: str
    home: StreamHome
    folders: Folders
    launcher: Launcher
    say: Say
    being_ended: str | None = field(default=None, init=False)
    _launch_failed: str | None = field(default=None, init=False)

    def launch(self) -> None:
        """Start a driver under a new uid. Raises what keeps it from starting."""
        uid = secrets.token_hex(6)
        self._launch_failed = None
        try:
            record = self.launcher.launch(self.home, DriverCall(stream=self.stream, uid=uid, folders=self.folders))
        except (SessionizerError, OSError):
            self._mark_ended(uid)
            self._launch_failed = uid
            raise
        whereabouts = f"pid {record.pid}" if record.submission is None else f"{record.submission} on {record.master}"
        if record.python is not None:
            whereabouts += f", by {record.python}"
        self.say(f"driver {uid} launched: {whereabouts}, log {record.log}")

    def uid_of_failed_launch(self) -> str | None:
        """Return the driver whose launch failed, if its launch is on record. It is then the newest driver."""
        launch = read_launch(self.home)
        return launch.uid if launch is not None and launch.uid == self._launch_failed else None

    def last_words(self, uid: str | None) -> list[str]:
        """Return the part of the driver's output that only a cluster has."""
        traces = None if uid is None else self.traces(uid)
        if traces is None or traces.launch is None or traces.launch.submission is None:
            return []
        return self.launcher.last_words(traces)

    def end(self, uid: str, *, out_of_sight: bool) -> DriverObservation | None:
        """Fence the driver, then kill its processes unless they are ``out_of_sight``.

        Returns what a cluster said of the driver before. None for a driver without a cluster.
        """
        traces = self.traces(uid)
        observed = self._ask_cluster(traces)
        fence(self.home, uid)
        if not out_of_sight:
            self.being_ended = uid
            self._kill(traces)
            self.being_ended = None
        return observed

    def traces(self, uid: str) -> DriverTraces:
        """Return the launched process and the lease's owner: with spark-submit, a JVM and its Python."""
        launch, lease = read_launch(self.home), read_lease(self.home)
        records = [record for record in (launch, lease) if record is not None and record.uid == uid]
        processes = tuple(record.process for record in records if record.process is not None)
        return DriverTraces(uid=uid, launch=launch if launch in records else None, processes=processes)

    def _ask_cluster(self, traces: DriverTraces) -> DriverObservation | None:
        if traces.launch is None or traces.launch.submission is None:
            return None
        try:
            observed = self.launcher.look_for(traces)
        except ClusterUnreachable as error:
            observed = DriverObservation(alive=None, said=str(error), cause=cause_of_error(error))
        self.say(f"driver {traces.uid}: {observed.said}", logging.WARNING)
        return observed

    def _kill(self, traces: DriverTraces) -> None:
        """Kill the driver. An unreachable cluster must not keep the stream down, because the driver is fenced."""
        try:
            self.launcher.end_by_force(traces)
        except ClusterUnreachable as error:
            self.say(f"driver {traces.uid} may still run, but can write nothing more: {error}", logging.WARNING)
        if traces.launch is not None and traces.launch.submission is not None:
            self._mark_ended(traces.uid)

    def _mark_ended(self, uid: str) -> None:
        """Record that a launched driver has ended, so that no supervisor waits for it."""
        launch = read_launch(self.home)
        if launch is not None and launch.uid == uid:
            with suppress(SessionizerError):
                LAUNCH_FILE.of(self.home).write(replace(launch, ended_at=epoch_ms()))
