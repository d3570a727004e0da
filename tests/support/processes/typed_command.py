"""A command of `sessionizer` on a stage's stream, as a program of its own that may be killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.places import REPOSITORY
from support.processes.driver_process import environment
from support.streams.stage import Stage

WITHIN_S = 300


@dataclass(frozen=True, slots=True)
class TypedCommand:
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, stage: Stage, verb: tuple[str, ...], *options: str) -> TypedCommand:
        """Type ``verb`` with the stage's folders and the ``options``. Returns at once."""
        control = ("--control", stage.control) if stage.control else ()
        places = ["--home", str(stage.home), "--master", "local[2]"]
        places += ["--data", stage.data] if stage.data else []
        argv = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), *control, *verb, stage.name, *options, *places]
        variables = environment() | {"SESSIONIZER_STREAMS": str(stage.streams)}
        log = stage.root / f"{verb[0]}-{time.monotonic_ns()}.log"
        with log.open("wb") as output:
            return cls(subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, env=variables), log)

    @classmethod
    def answer(cls, stage: Stage, verb: tuple[str, ...], *options: str) -> dict[str, Any]:
        """The JSON that the command prints once it has ended well."""
        typed = cls.start(stage, verb, *options, "--json")
        assert typed.end() == 0, typed.said
        found: dict[str, Any] = json.JSONDecoder().raw_decode(typed.said[typed.said.index("{") :])[0]
        return found

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, line: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while line not in self.said:
            assert self.process.poll() is None or line in self.said, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def end(self) -> int:
        return self.process.wait(WITHIN_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
