"""Another release of the product: a copy of its code with one line replaced."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from shutil import copytree, ignore_patterns
from typing import TYPE_CHECKING, Any, Final

from support.places import REPOSITORY
from support.processes.driver_process import environment

if TYPE_CHECKING:
    from pathlib import Path

    from support.streams.stage import Stage


@dataclass(frozen=True, slots=True)
class Patch:
    """A line of a file below ``jobs/sessionizer``, and what stands in its place."""

    file: str
    line: str
    instead: str

    def apply(self, jobs: Path) -> None:
        """Replace the line in a copy of the code. It must be there once."""
        path = jobs / "sessionizer" / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.line) == 1, f"{self.file} has changed"
        path.write_text(text.replace(self.line, self.instead), encoding="utf-8")


_CUTTING: Final = "core/key_group/cutting.py"
_GAP: Final = "    beyond_gap = events.clock[1:] > events.clock[:-1] + events.timeout[:-1]\n"
CUTS_ELSEWHERE: Final = Patch(_CUTTING, _GAP, _GAP.replace("timeout[:-1]", "timeout[:-1] // 2"))
REFACTORING: Final = Patch(
    _CUTTING, _GAP, "    quiet = np.diff(events.clock)\n    beyond_gap = np.greater(quiet, events.timeout[:-1])\n"
)


def release_with(patch: Patch, folder: Path) -> Path:
    """Copy the code into ``folder``, and apply the patch there."""
    copytree(REPOSITORY / "jobs", folder / "jobs", ignore=ignore_patterns("__pycache__"))
    patch.apply(folder / "jobs")
    return folder


def type_with(
    release: Path, verb: str, stage: Stage, *flags: str, within_s: float = 900
) -> subprocess.CompletedProcess[str]:
    """Run a command of another release on the stream, to its end."""
    places = ["--home", str(stage.home), "--streams", str(stage.streams), "--master", "local[2]"]
    command = [sys.executable, str(release / "jobs" / "main.py"), verb, stage.name, *places, *flags]
    variables = environment() | {"SESSIONIZER_JARS": str(REPOSITORY / ".jars" / "spark")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables, timeout=within_s)


def prove_with(release: Path, stage: Stage, *flags: str, within_s: float = 900) -> tuple[int, dict[str, Any]]:
    """Run ``sessionizer prove`` of another release: its exit code, and the JSON that it printed."""
    ended = type_with(release, "prove", stage, "--json", *flags, within_s=within_s)
    assert ended.stdout, ended.stderr[-4_000:]
    told: dict[str, Any] = json.loads(ended.stdout)
    return ended.returncode, told
