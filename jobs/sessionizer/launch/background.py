"""Low priority for a command, so that a driver on the same machine is not slowed down.

Linux weighs niceness among the processes of one session. Among sessions, where the kernel groups by them
(``sched_autogroup_enabled``), it weighs the niceness of the group, which only a whole session can have (man 7 sched).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

NICENESS: Final = 10
"""Niceness of a command: a tenth of the claim of others. With the lowest, 19, it would get next to nothing on a machine
that is never idle."""
_GROUP: Final = Path("/proc/self/autogroup")
_STARTED_BY_JVM: Final = "PYSPARK_GATEWAY_PORT"
"""Variable that is set for a Python program whose parent is the JVM of its spark-submit."""


def give_way() -> None:
    """Lower the priority of this process and of all that it starts, and that of its session if it leads one.

    A program that spark-submit started on this machine works in its parent, a JVM, whose priority is lowered, too.
    In a terminal the session is the shell's, which is not ours to slow down: ``setsid`` before the command gives it one
    of its own. Schedulers and services start each command in one. Harmless where there is no such thing.
    """
    _lower(0)
    ours = {os.getpid()}
    if _STARTED_BY_JVM in os.environ:
        _lower_threads(os.getppid())
        ours.add(os.getppid())
    if os.getsid(0) in ours:
        with suppress(OSError):
            _GROUP.write_text(str(NICENESS))


def _lower_threads(pid: int) -> None:
    """Lower the priority of the process's threads.

    Linux has one for each thread, and a new thread inherits its creator's.
    """
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            _lower(int(thread.name))


def _lower(thread: int) -> None:
    with suppress(OSError):  # the thread has ended, or is another user's
        os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
