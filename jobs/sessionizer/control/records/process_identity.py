"""The identity of a process, by which another process tells later whether it still lives. A pid alone is reused."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_ENDED_STATES: Final = frozenset({b"Z", b"X", b"x"})
"""States of a process that has ended. A zombie only waits for its parent to notice."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The identity of a process. No other process ever has it.

    ``started`` counts clock ticks since boot, None if the system does not tell. ``boot_id`` tells a machine's runs
    apart. ``namespace`` tells containers apart that share host name and kernel.
    """

    pid: int
    started: int | None
    host: str
    boot_id: str | None = None
    namespace: str | None = None


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    pid = os.getpid()
    stat = _stat(pid)
    return _identity(pid, stat[1] if stat else None)


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process now at ``pid`` on this host, or None."""
    stat = _stat(pid)
    if stat is None and _answers(pid) is False:
        return None
    return _identity(pid, stat[1] if stat else None)


def is_alive(identity: ProcessIdentity) -> bool | None:
    """Return whether the process lives.

    None for a process of another host or container, which cannot be seen from here.
    """
    if identity.host != socket.gethostname():
        return None
    if _differ(identity.boot_id, _boot_id()):
        return False
    if _differ(identity.namespace, _namespace()):
        return None
    stat = _stat(identity.pid)
    if stat is None:
        return _alive_unseen(identity.pid)
    state, started = stat
    return state not in _ENDED_STATES and identity.started in {None, started}


def _identity(pid: int, started: int | None) -> ProcessIdentity:
    return ProcessIdentity(pid, started, socket.gethostname(), _boot_id(), _namespace())


def _differ(recorded: str | None, here: str | None) -> bool:
    return recorded is not None and here is not None and recorded != here


def _stat(pid: int) -> tuple[bytes, int] | None:
    """Return the state letter and start time of ``pid``. None if it cannot be seen."""
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
        # The second field is the command in parentheses, which may itself hold spaces, parentheses or odd bytes.
        columns = line.rpartition(b")")[2].split()
        return columns[0], int(columns[19])
    except (OSError, IndexError, ValueError):
        return None


def _alive_unseen(pid: int) -> bool | None:
    answers = _answers(pid)
    if answers and (_PROC / "self" / "stat").exists():
        # There is a process, but /proc hides it (hidepid), so it may be another one.
        return None
    return answers


def _answers(pid: int) -> bool:
    """Whether any process has this pid. Used without /proc, where a reused pid cannot be recognized."""
    if pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


@cache
def _boot_id() -> str | None:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _namespace() -> str | None:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None
