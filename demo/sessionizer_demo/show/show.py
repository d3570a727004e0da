"""The course of a demo: start, unpause, wait for the first session, follow, end."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.control.status.driver_status import DriverStatus, State, read_status
from sessionizer.counts import count_text
from sessionizer.errors import TerminalError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import Verb, dag_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.project import Project
from sessionizer_demo.local_airflow.api import Api, wait_until
from sessionizer_demo.local_airflow.installation import POOLS
from sessionizer_demo.local_airflow.parts import Parts
from sessionizer_demo.show import words
from sessionizer_demo.show.ending import end_the_rest, stop_drivers
from sessionizer_demo.show.feed_process import Feed

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer_demo.local_airflow.installation import Installation

AIRFLOW_SECONDS = 300.0
FOLLOW_SECONDS = 60.0


class DemoBroke(TerminalError):
    """The processes ``parts`` of the demo have ended. Their ``logs`` say why."""

    parts: list[str]
    logs: Path

    def __str__(self) -> str:
        return f"{', '.join(self.parts)} ended unexpectedly; see {self.logs}"


@dataclass
class Show:
    """A demo of ``stream``, fed with about ``rate`` events per second."""

    installation: Installation
    stream: str
    rate: float
    began_ms: int = field(default_factory=epoch_ms, init=False)

    def __post_init__(self) -> None:
        self.parts = Parts(self.installation)
        self.api = Api(self.installation)
        spec = find_stream(Project.from_environment(self.installation.environment()).streams, self.stream)
        self.feed = Feed(self.installation, spec, self.rate)
        self.home = StreamHome.of(self.installation.platform_home, self.stream)

    def run(self) -> None:
        """Run the demo until Ctrl-C.

        Raises DemoBroke if one of the demo's own processes has ended, and AirflowUnavailable if Airflow does not
        answer.
        """
        try:
            self._start()
            self._await_first_session()
            self._follow()
        except KeyboardInterrupt:
            self._say("ending")
        finally:
            self._end()

    def _start(self) -> None:
        self._say("starting Airflow (about a minute)")
        self.parts.start_all()
        self.home.prepare()
        write_desired(self.home, DesiredState.RUNNING, by="the demo", why="it begins")
        self.feed.start()
        wait_until(self._is_ready, AIRFLOW_SECONDS, "a healthy Airflow")
        for pool in POOLS.values():
            self.api.ensure_pool(pool, slots=1)
        for verb in Verb:
            self.api.unpause(dag_id(self.stream, verb))
        self._say("Airflow is ready")
        typer.echo(words.welcome(self.installation, self.stream))

    def _is_ready(self) -> bool:
        self._require_parts()
        if not self.api.is_healthy():
            return False
        wanted = {dag_id(self.stream, verb) for verb in Verb}
        return wanted <= self.api.dag_ids()

    def _await_first_session(self) -> None:
        self._say("waiting for the first session: Spark starts, then a visit has to end (1 to 2 minutes)")
        told: State | None = None
        while not self._sessions():
            seen = self._look()
            if seen.state is not told:
                told = seen.state
                self._say(f"stream {self.stream}: {told.lower().replace('_', ' ')}{self._where_to_look(seen)}")
            self._require_parts()
            time.sleep(1)
        self._say(words.first_session(self.home, self._sessions()))

    def _follow(self) -> None:
        """Print a line a minute until the user ends the demo."""
        while True:
            time.sleep(FOLLOW_SECONDS)
            self._require_parts()
            seen = self._look()
            landed = f"{count_text(self._sessions(), 'session')} since its driver started"
            self._say(f"stream {self.stream}: {seen.state.lower()}, {landed}{self._where_to_look(seen)}")

    def _look(self) -> DriverStatus:
        return read_status(self.home, epoch_ms())

    def _sessions(self) -> int:
        beat = HEARTBEAT_FILE.of(self.home).read()
        # An older heartbeat is from an earlier demo in the same folder.
        return (beat.sessions_rows or 0) if beat is not None and beat.started_at >= self.began_ms else 0

    def _where_to_look(self, seen: DriverStatus) -> str:
        ill = seen.state in {State.FAILED, State.VANISHED, State.STALLED}
        return f"; see {self.home.logs} and the log of {dag_id(self.stream, Verb.SUPERVISE)}" if ill else ""

    def _require_parts(self) -> None:
        dead = self.parts.dead() + (["feed"] if self.feed.has_ended else [])
        if dead:
            raise DemoBroke(dead, self.installation.logs)

    def _end(self) -> None:
        """End Airflow first, because it would restart the driver, then the drivers and the remaining processes."""
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_IGN)
        self.feed.stop()
        self._say("stopping Airflow")
        self.parts.stop_all()
        stop_drivers(self.installation, self._say)
        end_the_rest(self.installation, self._say)
        self._say(f"ended; the data is kept in {self.installation.root}")

    def _say(self, line: str) -> None:
        # The terminal may be closed, and the processes must be ended nevertheless.
        with suppress(OSError):
            typer.echo(f"[{(epoch_ms() - self.began_ms) / 1000:4.0f} s] {line}")
