"""The driver of a soak, which a user started or Airflow keeps, and the Airflow whose parts are killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import psutil  # type: ignore[import-untyped]

from sessionizer.control.records.process_records import read_launch
from sessionizer.control.status.driver_status import read_driver
from sessionizer.home.clock import epoch_ms
from sessionizer.launch.driver_environment import MORE
from sessionizer_bench.places import REPOSITORY
from sessionizer_demo.local_airflow.api import AirflowUnavailable, Api, wait_until
from sessionizer_demo.local_airflow.installation import Installation
from sessionizer_demo.local_airflow.parts import Parts, end_processes, left_behind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from random import Random

    from sessionizer.home.stream_home import StreamHome
    from support.streams.stage import Stage

UP_WITHIN_S: Final = 180.0
SETTINGS: Final = {
    "SESSIONIZER_WATCH_LEASE": "2 minutes", "SESSIONIZER_FIRST_BACKOFF": "2 seconds",
    "SESSIONIZER_LONGEST_BACKOFF": "10 seconds", "SESSIONIZER_HEALTHY_AFTER": "5 seconds",
    "SESSIONIZER_RESTART_BUDGET": "100",
}  # fmt: skip
"""A soak kills a driver in each minute, which is no crash loop."""


class Driver(Protocol):
    """A driver of the soaked stream: its Python, its JVM and the workers of Python."""

    @property
    def pid(self) -> int:
        """Return the process from which the others descend."""

    @property
    def lives(self) -> bool:
        """Whether its first process lives."""

    @property
    def said(self) -> str:
        """Return its log."""

    def kill(self) -> object:
        """Kill all of it at once."""

    def freeze(self) -> None:
        """Stop all of it until ``thaw``."""

    def thaw(self) -> None:
        """Let it go on."""

    def await_end(self, seconds: float) -> None:
        """Wait for its end, not longer than that."""


def parts_of(driver: Driver) -> dict[str, list[int]]:
    """Return the numbers of its processes: ``python``, ``jvm`` and ``workers``. Empty once it is gone."""
    found: dict[str, list[int]] = {"python": [], "jvm": [], "workers": []}
    for process in _family_of(driver.pid):
        with suppress(psutil.Error):
            if process.name() == "java":
                found["jvm"].append(process.pid)
            elif process.name().startswith("python"):
                found["workers" if found["python"] else "python"].append(process.pid)
    return found


def _family_of(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    return []


@dataclass(slots=True)
class KeptDriver:
    """A driver that Airflow launched, by spark-submit in a process group of its own."""

    process: psutil.Process
    log: Path

    @property
    def pid(self) -> int:
        """Return the process of spark-submit."""
        return int(self.process.pid)

    @property
    def lives(self) -> bool:
        """Whether it lives. A zombie does not."""
        with suppress(psutil.Error):
            return bool(self.process.is_running()) and self.process.status() != psutil.STATUS_ZOMBIE
        return False

    @property
    def said(self) -> str:
        """Return its log."""
        with suppress(OSError):
            return self.log.read_text(errors="replace")
        return ""

    def kill(self) -> None:
        """Kill its group."""
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop its group."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let its group go on."""
        self._signal(signal.SIGCONT)

    def await_end(self, seconds: float) -> None:
        """Wait until it is gone."""
        psutil.wait_procs([self.process], timeout=seconds)

    def _signal(self, number: signal.Signals) -> None:
        if self.lives:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)


@dataclass(slots=True)
class Keeper:
    """An Airflow that keeps the driver of a stream. Its parts can be killed."""

    parts: Parts
    api: Api
    home: StreamHome

    @classmethod
    def begin(cls, stage: Stage, variables: Mapping[str, str]) -> Keeper:
        """Start it, and let it watch the stream. ``variables``: of all its processes and of drivers."""
        settings = {
            **SETTINGS, **variables, MORE: " ".join(variables),
            "SESSIONIZER_HOME": str(stage.home), "SESSIONIZER_STREAMS": str(stage.streams),
            "SESSIONIZER_APPLICATION": str(REPOSITORY / "jobs" / "main.py"),
        }  # fmt: skip
        installation = Installation(root=stage.root / "airflow", settings=settings)
        keeper = cls(Parts(installation), Api(installation), stage.stream_home)
        keeper.parts.start_all()
        wait_until(keeper.api.is_healthy, UP_WITHIN_S, "a healthy Airflow")
        dag = f"{stage.name}.supervise"
        wait_until(lambda: dag in keeper.api.dag_ids(), UP_WITHIN_S, "its DAGs")
        keeper.api.unpause(dag)
        return keeper

    def driver(self) -> KeptDriver | None:
        """Return the driver that lives. None if there is none."""
        launch, seen = read_launch(self.home), read_driver(self.home, epoch_ms())
        if launch is None or launch.pid is None or seen.uid != launch.uid:
            return None
        with suppress(psutil.Error):
            driver = KeptDriver(psutil.Process(launch.pid), self.home.driver_log(launch.uid))
            return driver if driver.lives else None
        return None

    def kill_part(self, chance: Random) -> str:
        """Kill one part or all of Airflow, and start it again. Returns which."""
        name = chance.choice([*sorted(self.parts.running), "all"])
        if name == "all":
            self.parts.kill_all()
            self.parts.start_all()
        else:
            self.parts.kill(name)
            self.parts.start(name)
        return name

    def problems(self) -> Sequence[str]:
        """Return its problems, once its parts have had time to come up."""
        try:
            wait_until(self.api.is_healthy, UP_WITHIN_S, "a healthy Airflow")
            return self.api.import_errors()
        except AirflowUnavailable as error:
            return [str(error)]

    def end(self) -> None:
        """End its parts, and whatever they left."""
        self.parts.stop_all()
        end_processes(left_behind(self.parts.installation), seconds=0.0)
