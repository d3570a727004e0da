"""A stream under supervision whose news go to a notifier: what is looked at until people are told, and what of."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import CAUSES
from sessionizer.cli.app import app
from sessionizer.fleet.finding import HealthWord, StreamHealth
from sessionizer.fleet.streams import find_view
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.launching.local import Launcher, LocalLauncher
from sessionizer_airflow.launching.spark_submit import DriverCall
from sessionizer_airflow.project import Folders
from sessionizer_airflow.supervision.act import Supervisor
from support.expected.driver_statuses import Heard, recorded
from support.expected.told_causes import WORDS, check_alert, check_record
from support.places import REPOSITORY
from support.processes.driver_process import QUICK_JVM
from support.processes.fabricated_platform import Platform
from support.processes.file_notifier import settle_until, told
from support.processes.ports import eventually
from support.streams.stage import Stage


def real_driver(call: DriverCall) -> list[str]:
    """Return the command of a driver whose JVM is set up for a short life."""
    quick = f"JAVA_TOOL_OPTIONS={QUICK_JVM}"
    return ["/usr/bin/env", quick, sys.executable, str(REPOSITORY / "jobs" / "main.py"), *call.argv()]


AS_IT_IS: Final[Mapping[str, int]] = {}
WORDS_OF_THEIR_OWN: Final[Mapping[str, tuple[HealthWord, set[str]]]] = {
    "StreamDrained": (HealthWord.HEALTHY, {"drained"}),
    "OperationPending": (HealthWord.DOWN, {"stuck_command"}),
}
"""Causes that a stream has a word for, whatever its supervisor does."""


@dataclass
class WatchedStream:
    """The stream at `home` with the folder of specs `streams`; what people are told is kept in `notified`."""

    home: StreamHome
    streams: Path
    notified: Path
    said: Heard
    new_supervisor: Callable[[], Supervisor]

    @property
    def platform(self) -> Platform:
        return Platform(self.home.platform, self.streams)

    @property
    def told(self) -> list[dict[str, Any]]:
        return told(self.notified)

    def supervisor(
        self, launch: Launcher | Callable[[DriverCall], list[str]], patience: Mapping[str, int] = AS_IT_IS
    ) -> Supervisor:
        supervisor = self.new_supervisor()
        supervisor.home = supervisor.ledger.home = self.home
        supervisor.folders = Folders(home=self.home.platform, streams=self.streams)
        supervisor.launcher = LocalLauncher(launch) if callable(launch) else launch
        supervisor.policy = replace(supervisor.policy, **{"waiting_alert_ms": 1, **patience})
        return supervisor

    def watch(
        self,
        launch: Launcher | Callable[[DriverCall], list[str]],
        until: Callable[[], object] = lambda: False,
        within_s: float = 240.0,
        patience: Mapping[str, int] = AS_IT_IS,
    ) -> None:
        """Supervise it until people are told something new, or `until` holds."""
        before = len(self.told)
        build = partial(self.supervisor, launch, patience)
        settle_until(lambda: len(self.told) > before or until(), build, self.said, within_s)

    def drive(
        self,
        until: Callable[[], object] = lambda: False,
        command: Callable[[DriverCall], list[str]] = real_driver,
        patience: Mapping[str, int] = AS_IT_IS,
    ) -> None:
        limits = {"startup_grace_ms": 120_000, "stale_limit_ms": 60_000, **patience}
        self.watch(command, until, within_s=200, patience=limits)

    def stage(self, spec: Mapping[str, Any]) -> Stage:
        stage = Stage.set_up(self.home.platform, spec, home=self.home.platform)
        self.streams = stage.streams
        return stage

    def check(self, name: str, /, *, names: str = "", **fields: object) -> None:
        """People were told of this cause, once, and it is on record. The page has its word."""
        check_alert(name, self.told, self.said, names=names, **fields)
        check_record(name, recorded(self.home), self.said)
        self.check_word(name)

    def check_word(self, name: str) -> None:
        """Streams page, `status` and metrics say this word within ten seconds, and what to do."""
        word, rules = WORDS_OF_THEIR_OWN.get(name) or WORDS[CAUSES[name].verdict]

        def health() -> StreamHealth:
            return find_view(self.home.platform, self.streams, self.home.name).health

        eventually(lambda: (now := health()).word is word and now.rule in rules, 10, health)
        assert word is not HealthWord.DOWN or CAUSES[name].for_good or health().findings[0].what_to_do

    def check_status(self, name: str, *, says: str | None = None) -> None:
        """The command line says the same; or ``says``, where it knows more."""
        places = ["--streams", str(self.streams), "--home", str(self.home.platform)]
        shown = CliRunner().invoke(app, ["status", self.home.name, *places]).stdout
        assert (says or name_stream(CAUSES[name].remedy, self.home.name)) in shown
