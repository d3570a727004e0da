"""Real drivers in processes of their own: started, watched, frozen, killed.

Who is remembered is remembered as psutil's Process, which signals nobody else: numbers of processes are given out anew
within minutes, to threads as well, and a signal to a thread's number reaches the whole process.
"""

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil  # type: ignore[import-untyped]
import pyspark

from sessionizer.launch.driver_environment import MORE, PLAIN_SPARK
from sessionizer.launch.installation import JARS_VARIABLE
from sessionizer.launch.scratch import SUBMIT_OPTIONS
from support.places import REPOSITORY, SUPPORT
from support.processes.ports import command_of, eventually, runs
from support.streams.stage import Stage

JOBS = REPOSITORY / "jobs"
SPARK_SETTINGS = SUPPORT / "spark_settings" / "spark-defaults.conf"
"""Settings that spare short-lived drivers the cost of compiling for a long life."""
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""One compiler alone gets room for 48 MB of code. Spark fills that in minutes, and then compiles it over and over."""

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
"""The main class of an executor's JVM."""

UP_WITHIN_S = 180.0
ENDED_WITHIN_S = 300.0
LOOK_EVERY_S = 0.2
"""Looking is no more than it must be: the driver needs the processor."""


class DriverNeverDidThat(AssertionError):
    """The driver ended, or took too long, before what the test waited for."""


@dataclass(slots=True)
class DriverProcess:
    """One driver: a Python process and its JVM. Leaving the context kills what is left of it."""

    process: subprocess.Popen[bytes]
    uid: str
    log: Path
    _frozen: list[psutil.Process] = field(default_factory=list)
    _seen: set[psutil.Process] = field(default_factory=set)

    @classmethod
    def start(
        cls,
        stage: Stage,
        uid: str,
        until: str = "drained",
        master: str = "local[2]",
        *,
        apply: bool = False,
        flags: Sequence[str] = (),
    ) -> Self:
        """Start a driver of the stage's stream, with ``apply`` by its file as it is now.

        Returns at once. ``flags``: others of `sessionizer run`.
        """
        log = stage.root / f"driver-{uid}.log"
        command = [sys.executable, str(JOBS / "main.py"), *(["--control", stage.control] if stage.control else [])]
        command += ["run", stage.name, "--home", str(stage.home)]
        command += ["--streams", str(stage.streams), "--uid", uid, "--until", until, "--master", master]
        command += [*(["--apply"] if apply else []), *flags]
        command += ["--data", stage.data] if stage.data else []
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
            )
        return cls(process, uid, log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.family()
        for process in self._seen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def jvm(self) -> int | None:
        """The JVM, None before it runs and after its driver has ended."""
        return None if self.ended else jvm_of(self.pid)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def family(self) -> list[int]:
        """Its process and all that descend from it; remembered, as those of a dead parent cannot be found."""
        found = [] if self.ended else _family_of(self.pid)
        self._seen.update(found)
        return [process.pid for process in found]

    def executors(self) -> list[int]:
        self.family()
        return [] if self.ended else executors_of(self.pid)

    def wait(self, within_s: float = ENDED_WITHIN_S) -> int:
        """Return its exit code. A stop is no error, so it leaves no stack."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise DriverNeverDidThat(f"driver {self.uid} runs on: {self._end_of_log()}") from None
        assert "GateClosed" not in self.said, self._end_of_log()
        return code

    def wait_for(
        self, condition: Callable[[], bool], what: str, within_s: float = UP_WITHIN_S, every_s: float = LOOK_EVERY_S
    ) -> None:
        """Return as soon as ``condition`` holds. Raises DriverNeverDidThat when it cannot any more."""
        deadline = time.monotonic() + within_s
        while not condition():
            if (self.ended and not condition()) or time.monotonic() > deadline:
                raise DriverNeverDidThat(f"driver {self.uid} never got to: {what}; {self._end_of_log()}")
            time.sleep(every_s)

    def wait_for_line(self, text: str) -> None:
        self.wait_for(lambda: text in self.said, f"saying {text!r}")

    def freeze(self) -> None:
        """SIGSTOP to the JVM and to Python: nothing of it moves until ``thaw``."""
        self._frozen = [psutil.Process(pid) for pid in (self.jvm, self.pid) if pid]
        self.family()
        for process in self._frozen:
            process.suspend()

    def thaw(self) -> None:
        for process in self._frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        self._frozen = []

    def kill_python(self) -> None:
        jvm = psutil.Process(self.jvm) if self.jvm else None
        self._kill(self.pid)
        if jvm:
            eventually(lambda: not runs(jvm), among=jvm)

    def kill_jvm(self) -> int:
        jvm = self.jvm
        assert jvm, "there is no JVM yet"
        self._kill(jvm)
        return self.wait()

    def kill_all(self) -> None:
        """SIGKILL to both at once, as when the machine dies."""
        self._kill(*filter(None, (self.jvm, self.pid)))

    def _kill(self, *pids: int) -> None:
        self.family()
        for pid in pids:
            kill_process(pid)
        self.thaw()
        if self.pid in pids:
            self.process.wait()

    def _end_of_log(self) -> str:
        return "\n".join(self.said.splitlines()[-15:])


def run_to_end(stage: Stage, uid: str, until: str = "drained", *, apply: bool = False) -> None:
    with DriverProcess.start(stage, uid, until, apply=apply) as driver:
        assert driver.wait() == 0, driver.said[-4_000:]


def executors_of(driver: int) -> list[int]:
    return [process.pid for process in _family_of(driver) if EXECUTOR in command_of(process)]


def jvm_of(driver: int) -> int | None:
    return next((process.pid for process in _family_of(driver)[1:] if _name(process) == "java"), None)


def workers_of(driver: int) -> list[int]:
    return [process.pid for process in _family_of(driver)[1:] if _name(process).startswith("python")]


def kill_process(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).kill()


def environment() -> dict[str, str]:
    """Return our environment without what the Spark of the tests, in this process, put there for itself."""
    ours = {name for name in os.environ if name.startswith("SESSIONIZER_")} - {PLAIN_SPARK, JARS_VARIABLE, MORE}
    ours.add(SUBMIT_OPTIONS)
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    home = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    submit = f"--properties-file {shlex.quote(str(SPARK_SETTINGS))} pyspark-shell"
    quick = {"PYSPARK_SUBMIT_ARGS": submit, "JAVA_TOOL_OPTIONS": QUICK_JVM}
    return inherited | home | quick | {"PYSPARK_PYTHON": sys.executable}


def _family_of(pid: int) -> list[psutil.Process]:
    """The process that has this number, and after it all that descend from it; nobody once it is gone."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""
