"""Memory and processor time of a process and all its descendants, from ``/proc``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PARENT, _USER_TIME, _SYSTEM_TIME, _RESIDENT = 1, 11, 12, 21
"""Places in ``/proc/<pid>/stat`` behind the command's name."""


@dataclass(frozen=True, slots=True)
class Process:
    """A live process, with its resident bytes, its processor time in clock ticks, and its command line."""

    pid: int
    parent: int
    resident: int
    ticks: int
    command: str = ""


@dataclass(slots=True)
class TreeUse:
    """The use of a process tree over all samples: the peak of its summed resident memory, and its processor time.

    Pages that forked Python workers share count in each of them. A JVM that starts a program is there twice for a
    moment, with one memory, which counts once.
    """

    root: int
    peak_resident: int = 0
    _ticks: dict[int, int] = field(default_factory=dict)

    def sample(self, processes: list[Process] | None = None) -> None:
        """Take one sample, by default of the live processes."""
        tree = descendants(self.root, live_processes() if processes is None else processes)
        commands = {process.pid: process.command for process in tree}
        resident = sum(each.resident for each in tree if not _starts_program(each, commands.get(each.parent)))
        self.peak_resident = max(self.peak_resident, resident)
        for process in tree:
            self._ticks[process.pid] = max(process.ticks, self._ticks.get(process.pid, 0))

    @property
    def ticks(self) -> int:
        """Processor time (clock ticks) of all processes ever seen, each at its last sample."""
        return sum(self._ticks.values())


def live_processes() -> list[Process]:
    """Return all processes of this machine."""
    found = (_process(entry) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [process for process in found if process]


def descendants(root: int, processes: list[Process]) -> list[Process]:
    """Return the process ``root`` and all its descendants."""
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    tree = [process for process in processes if process.pid == root]
    for process in tree:
        tree.extend(children.get(process.pid, ()))
    return tree


def _starts_program(process: Process, parents_command: str | None) -> bool:
    """Whether it is a JVM's copy of itself, which Linux makes before it runs the program that the JVM starts."""
    return process.command == parents_command and process.command.partition("\0")[0].endswith("java")


def _process(entry: Path) -> Process | None:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        command = (entry / "cmdline").read_text(errors="replace")
    except OSError:
        return None
    ticks = int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])
    return Process(int(entry.name), int(fields[_PARENT]), int(fields[_RESIDENT]) * _PAGE, ticks, command)
