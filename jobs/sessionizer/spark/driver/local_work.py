"""The processor time that the tasks of a local Spark have had. Linux only: elsewhere nothing is told.

Within one JVM Spark tells nothing of a task before it ends: executors name their counts only to another JVM.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC: Final = Path("/proc")
_TASK_THREADS: Final = ("Executor task l", "stdout writer f", "Writer for pyth")
"""How Linux cuts the names of the threads that run a task, or feed its Python worker."""


def task_seconds(jvm_pid: int) -> int:
    """Whole seconds of processor time of the JVM's tasks that run now: their threads, and Python workers."""
    threads = [thread for thread in _folders(_PROC / str(jvm_pid) / "task") if _name(thread) in _TASK_THREADS]
    processes = [_PROC / str(pid) for pid in _descendants(jvm_pid)]
    return sum(_ticks(entry) for entry in [*threads, *processes]) // os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> Iterator[int]:
    for thread in _folders(_PROC / str(pid) / "task"):
        try:
            children = [int(child) for child in (thread / "children").read_text().split()]
        except (OSError, ValueError):
            continue
        for child in children:
            yield child
            yield from _descendants(child)


def _folders(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text().rstrip("\n")
    except OSError:
        return ""


def _ticks(entry: Path) -> int:
    """User and system time of a process or thread, 0 where it is gone."""
    try:
        # the name, in parentheses, may hold anything
        columns = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(columns[11]) + int(columns[12])
    except (OSError, IndexError, ValueError):
        return 0
