"""Real drivers in processes of their own: started, watched, frozen, killed.

Who is remembered is remembered as psutil's Process, which signals nobody else: numbers of processes are given out anew
within minutes, to threads as well, and a signal to a thread's number reaches the whole process.
"""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil  # type: ignore[import-untyped]
import pyspark

from sessionizer.launch.driver_environment import MORE, PLAIN_SPARK
from sessionizer.launch.installation import JARS_VARIABLE
from sessionizer.launch.scratch import SUBMIT_OPTIONS
from support.places import MAIN, REPOSITORY, SUPPORT, known
from support.processes.ports import command_of, eventually, runs
from support.streams.stage import Stage

JOBS = REPOSITORY / "jobs"
SPARK_SETTINGS = SUPPORT / "spark_settings" / "spark-defaults.conf"
"""Settings that spare short-lived drivers the cost of compiling for a long life."""
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""One compiler alone gets room for 48 MB of code. Spark fills that in minutes, and then compiles it over and over."""


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
        options = ["--uid", uid, "--until", until, *(["--apply"] if apply else []), *flags]
        argv = argv_of(stage, ["run"], *options, "--streams", str(stage.streams), master=master)
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, stdout=output, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
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

    def wait(self, within_s: float = 300) -> int:
        """Return its exit code. A stop is no error, so it leaves no stack."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise DriverNeverDidThat(f"driver {self.uid} runs on: {self._end_of_log()}") from None
        assert "GateClosed" not in self.said, self._end_of_log()
        return code

    def wait_for(self, condition: Callable[[], bool], what: str, within_s: float = 180, every_s: float = 0.2) -> None:
        """Return as soon as ``condition`` holds. Raises DriverNeverDidThat when it cannot any more.

        It looks no more often than it must: the driver needs the processor.
        """
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


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A command on a stage's stream, as a program of its own that may be killed."""

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, stage: Stage, verb: tuple[str, ...], *options: str) -> Self:
        """Type ``verb`` with the stage's folders and the ``options``. Returns at once."""
        variables = environment() | {"SESSIONIZER_STREAMS": str(stage.streams)}
        log = stage.root / f"{verb[0]}-{time.monotonic_ns()}.log"
        with log.open("wb") as output:
            argv = argv_of(stage, verb, *options)
            return cls(subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, env=variables), log)

    @classmethod
    def answer(cls, stage: Stage, verb: tuple[str, ...], *options: str) -> dict[str, Any]:
        return cls.start(stage, verb, *options, "--json").document()

    def document(self) -> dict[str, Any]:
        """The JSON that the command prints once it has ended well."""
        assert self.end() == 0, self.said
        begins = known(re.search(r"^\{", self.said, re.MULTILINE)).start()
        found: dict[str, Any] = json.JSONDecoder().raw_decode(self.said[begins:])[0]
        return found

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, line: str) -> None:
        def is_said() -> bool:
            assert self.process.poll() is None or line in self.said, self.said
            return line in self.said

        eventually(is_said, 300, lambda: self.said)

    def end(self) -> int:
        return self.process.wait(300)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def argv_of(stage: Stage, verb: Sequence[str], *options: str, master: str = "local[2]") -> list[str]:
    """The words of a command on the stage's stream, with its roots."""
    control = ["--control", stage.control] if stage.control else []
    data = ["--data", stage.data] if stage.data else []
    return [
        *(sys.executable, MAIN, *control, *verb, stage.name, *options),
        *("--home", str(stage.home), "--master", master, *data),
    ]


def run_to_end(stage: Stage, uid: str, until: str = "drained", *, apply: bool = False, code: int = 0) -> str:
    """Run a driver to its end, which is to have this exit code. Returns what it said."""
    with DriverProcess.start(stage, uid, until, apply=apply) as driver:
        assert driver.wait() == code, driver.said[-4_000:]
        return driver.said


def executors_of(driver: int) -> list[int]:
    return [
        process.pid
        for process in _family_of(driver)
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command_of(process)
    ]


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
