"""The order of events: start, unpause, wait for the first session, follow, end."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessionizer.control.clock import epoch_ms
from sessionizer.control.heartbeat import read_heartbeat
from sessionizer.control.observation import Observation, State
from sessionizer.control.status import read_observation
from sessionizer.control.stream_home import StreamHome
from sessionizer.spec.loading import find_stream

from sessionizer_airflow.demo import words
from sessionizer_airflow.demo.ending import drain_drivers, end_the_rest
from sessionizer_airflow.demo.feed import Feed
from sessionizer_airflow.errors import DemoBroke
from sessionizer_airflow.local_airflow.api import Api, wait_until
from sessionizer_airflow.local_airflow.parts import Parts
from sessionizer_airflow.project import Project

if TYPE_CHECKING:
    from sessionizer_airflow.local_airflow.installation import Installation

AIRFLOW_SECONDS = 300.0
FOLLOW_SECONDS = 60.0
VERBS = ("supervise", "report", "stop", "start")


@dataclass
class Show:
    """One demo of `stream`, fed with about `rate` events per second."""

    installation: Installation
    stream: str
    rate: float
    began: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        self.parts = Parts(self.installation)
        self.api = Api(self.installation)
        spec = find_stream(Project.from_environment().streams, self.stream)
        self.feed = Feed(self.installation, spec, self.rate)
        self.home = StreamHome.of(self.installation.platform_home, self.stream)

    def run(self) -> None:
        """:raises DemoBroke: one of the demo's own processes has ended."""
        try:
            self.start()
            self.await_first_session()
            self.follow()
        except KeyboardInterrupt:
            self.say("ending")
        finally:
            self.end()

    def start(self) -> None:
        self.say("starting Airflow (about a minute)")
        self.parts.start_all()
        self.feed.start()
        wait_until(self.is_ready, AIRFLOW_SECONDS, "a healthy Airflow")
        for verb in VERBS:
            self.api.unpause(f"{self.stream}.{verb}")
        self.say("Airflow is ready")
        print(words.welcome(self.installation, self.stream), flush=True)

    def is_ready(self) -> bool:
        self.require_parts()
        if not self.api.is_healthy():
            return False
        wanted = {f"{self.stream}.{verb}" for verb in VERBS}
        return wanted <= self.api.dag_ids()

    def await_first_session(self) -> None:
        self.say("waiting for the first session: Spark starts, then a visit has to end (1 to 2 minutes)")
        told: State | None = None
        while not self.sessions():
            seen = self.look()
            if seen.state is not told:
                told = seen.state
                self.say(f"stream {self.stream}: {told.lower().replace('_', ' ')}{self.where_to_look(seen)}")
            self.require_parts()
            time.sleep(1)
        self.say(words.first_session(self.home, self.sessions()))

    def follow(self) -> None:
        """A line a minute, until somebody ends it."""
        while True:
            time.sleep(FOLLOW_SECONDS)
            self.require_parts()
            seen = self.look()
            self.say(f"stream {self.stream}: {seen.state.lower()}, {self.sessions()} sessions{self.where_to_look(seen)}")

    def look(self) -> Observation:
        return read_observation(self.home, epoch_ms())

    def sessions(self) -> int:
        beat = read_heartbeat(self.home)
        return (beat.sessions_rows or 0) if beat is not None else 0

    def where_to_look(self, seen: Observation) -> str:
        ill = seen.state in {State.FAILED, State.VANISHED, State.STALLED}
        return f"; see {self.home.logs} and the log of {self.stream}.supervise" if ill else ""

    def require_parts(self) -> None:
        dead = self.parts.dead() + (["feed"] if self.feed.has_ended else [])
        if dead:
            raise DemoBroke(dead, self.installation.logs)

    def end(self) -> None:
        """Airflow first, else it would start the driver again."""
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_IGN)
        self.feed.stop()
        self.say("stopping Airflow")
        self.parts.stop_all()
        drain_drivers(self.installation, self.say)
        end_the_rest(self.installation, self.say)
        self.say(f"ended; the data is kept in {self.installation.root}")

    def say(self, line: str) -> None:
        print(f"[{time.monotonic() - self.began:4.0f} s] {line}", flush=True)
