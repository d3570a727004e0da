"""The program `sessionizer` as a user types it: each command a process of its own, which may be killed or frozen."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Self

from sessionizer.control.records.erasure_record import SECRET
from support.histories.typed_stream import TYPED_SECRET
from support.places import REPOSITORY
from support.processes.driver_process import environment

WITHIN_S: Final = 400
ELSEWHERE: Final = ("unshare", "--uts", "bash", "-c", 'hostname elsewhere; exec "$@"', "-")
"""Before a command that is to be on another host: it cannot see whether processes of this one live."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a command: its exit code, None if it was killed, and what it printed."""

    words: tuple[str, ...]
    code: int | None
    printed: str
    said: str
    seconds: float

    @property
    def text(self) -> str:
        return self.printed + self.said

    @property
    def document(self) -> Any:
        return json.loads(self.printed)


@dataclass(slots=True)
class Running:
    """A command that runs, in a process group of its own."""

    words: tuple[str, ...]
    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path
    began: float = field(default_factory=time.monotonic)
    killed: bool = False

    @property
    def said(self) -> str:
        return self.stderr.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def await_end(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def kill(self) -> Self:
        if self.lives:
            self._signal(signal.SIGKILL)
            self.process.wait()
            self.killed = True
        return self

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self, within_s: float = WITHIN_S) -> Answer:
        """Wait for its end. Fails if it takes too long."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.words} did not end within {within_s} s: {self.said[-4_000:]}") from None
        printed = self.stdout.read_text(errors="replace")
        seconds = time.monotonic() - self.began
        return Answer(self.words, None if self.killed else code, printed, self.said, seconds)


@dataclass(slots=True)
class TypedProgram:
    """The program with the ``home`` and the ``streams`` of one user. What it prints is kept in ``logs``.

    ``jobs``: the folder of the installed release. ``variables``: others of its environment.
    """

    home: Path
    streams: Path
    logs: Path
    jobs: Path = REPOSITORY / "jobs"
    variables: dict[str, str] = field(default_factory=dict)
    _typed: int = 0

    def start(self, *words: str, elsewhere: bool = False) -> Running:
        """Type the command, on another host if ``elsewhere``. Returns at once."""
        self._typed += 1
        places = {"SESSIONIZER_HOME": self.home, "SESSIONIZER_STREAMS": self.streams, "SESSIONIZER_MASTER": "local[2]"}
        variables = environment() | {name: str(value) for name, value in places.items()} | self.variables
        variables[SECRET] = TYPED_SECRET
        variables["SESSIONIZER_JARS"] = os.environ["SESSIONIZER_JARS"]
        files = [self.logs / f"{self._typed:03}-{words[0]}.{kind}" for kind in ("out", "err")]
        command = [*(ELSEWHERE if elsewhere else ()), sys.executable, str(self.jobs / "main.py"), *words]
        with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
            process = subprocess.Popen(
                command, stdout=stdout, stderr=stderr, env=variables, cwd=self.logs, start_new_session=True
            )
        return Running(words, process, stdout=files[0], stderr=files[1])


QUICK: Final = frozenset({"status", "diff", "spec", "abandon", "promote", "stop", "tables"})
"""Commands that start no Spark."""
LINES: Final = {
    "restore": 10, "rollback": 3, "rescale": 7, "switch": 7, "apply": 3, "upgrade": 3, "seed": 10, "savepoint": 4,
    "run": 3, "erase": 14,
}  # fmt: skip
"""Number of lines by which each command tells its steps, with rows to delete in two tables."""
OF_NEW_LINEAGE: Final = 6
"""Lines more, if a command makes a new lineage only when asked to."""
ROWS: Final = frozenset({"sessions", "quarantine", "late_events"})
"""Steps that a command tells once it has deleted rows of a table, or brought some back."""
_STEP: Final = re.compile(
    r"^(?:starting Spark|driver (?=.* asked to stop)|savepoint(?=: )|taking the history|new lineage: \w+"
    r"|\w+(?=: [\d,]+ rows? (?:brought back|deleted))"
    r"|\w+(?=: rows and old files deleted)|savepoint(?= \S+: (?:removed|written anew))"
    r"|lineage: the approved spec|lineage (?=\S+ failed)|tables(?=: )"
    r"|saving lineage|done: \w+|query starts|draining lineage)",
    re.MULTILINE,
)


def told_steps(said: str) -> list[str]:
    return _STEP.findall(said)


def is_approved(words: Sequence[str]) -> bool:
    return "--approve" in words


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment ``after_s`` seconds after the command has told so many ``lines``, one ``of`` these steps among them."""

    lines: int
    after_s: float
    of: frozenset[str] = frozenset()

    def wait_for(self, running: Running) -> bool:
        """Wait for the moment. Returns False if the command has ended before."""
        deadline = time.monotonic() + WITHIN_S
        while not self._has_come(told_steps(running.said)) and running.process.poll() is None:
            assert time.monotonic() < deadline, f"{running.words} takes too long: {running.said[-4_000:]}"
            time.sleep(0.005)
        try:
            running.process.wait(self.after_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _has_come(self, told: list[str]) -> bool:
        return len(told) >= self.lines and (not self.of or not self.of.isdisjoint(told))


def draw_moment(chance: Random, words: Sequence[str]) -> Moment | None:
    """Draw the moment at which a command is killed or frozen, None if it may run to its end.

    Most of those that are approved are, and few plans, because these write nothing.
    """
    share = 0.9 if is_approved(words) else 0.05 if "--json" in words else 0.3
    if chance.random() >= share:
        return None
    if words[0] in QUICK:
        return Moment(0, chance.uniform(0.05, 2))
    lines = LINES.get(words[0], 1) + OF_NEW_LINEAGE * ("--new-lineage" in words)
    line = chance.randint(1, lines) if "--json" not in words else 1
    if chance.random() < 0.5:
        return Moment(line, 0)
    return Moment(line, chance.uniform(0, 14 if line == 1 else 2))


def draw_moment_of_rows(chance: Random) -> Moment:
    return Moment(0, chance.choice([0, chance.uniform(0, 1)]), ROWS)


def draw_rollback_moment(chance: Random) -> Moment:
    return Moment(chance.randint(1, 4), chance.choice([0, chance.uniform(0, 3), chance.uniform(0, 8)]))
