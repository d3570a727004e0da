"""The program `sessionizer` as a user types it: each command a process of its own, which may be killed or frozen."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from support.places import REPOSITORY
from support.processes.driver_process import environment

if TYPE_CHECKING:
    from pathlib import Path

WITHIN_S: Final = 400
MASTER: Final = "local[2]"
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
        """Everything that it printed, on stdout and stderr."""
        return self.printed + self.said

    @property
    def document(self) -> Any:
        """The JSON that it printed."""
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
        """Its lines on stderr so far."""
        return self.stderr.read_text(errors="replace")

    def kill(self) -> Self:
        """SIGKILL to the whole group: Python and its JVM. Does nothing to a command that has ended."""
        if self.process.poll() is None:
            self._signal(signal.SIGKILL)
            self.process.wait()
            self.killed = True
        return self

    def freeze(self) -> None:
        """SIGSTOP to the whole group."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT to the whole group."""
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

    ``jobs``: the folder of the installed release.
    """

    home: Path
    streams: Path
    logs: Path
    jobs: Path = REPOSITORY / "jobs"
    _typed: int = 0

    def start(self, *words: str, elsewhere: bool = False) -> Running:
        """Type the command, on another host if ``elsewhere``. Returns at once."""
        self._typed += 1
        places = {"SESSIONIZER_HOME": self.home, "SESSIONIZER_STREAMS": self.streams, "SESSIONIZER_MASTER": MASTER}
        variables = environment() | {name: str(value) for name, value in places.items()}
        variables["SESSIONIZER_JARS"] = os.environ["SESSIONIZER_JARS"]
        files = [self.logs / f"{self._typed:03}-{words[0]}.{kind}" for kind in ("out", "err")]
        command = [*(ELSEWHERE if elsewhere else ()), sys.executable, str(self.jobs / "main.py"), *words]
        with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
            process = subprocess.Popen(
                command, stdout=stdout, stderr=stderr, env=variables, cwd=self.logs, start_new_session=True
            )
        return Running(words, process, stdout=files[0], stderr=files[1])
