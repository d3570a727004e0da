"""A process that was found or recorded, and may have ended since."""

from __future__ import annotations

import psutil  # type: ignore[import-untyped]


def known(pid: int | None) -> int:
    """``pid``, which a record or a process that never started lacks: to 0 a signal would end the tests themselves."""
    assert pid, "there is no process to send a signal to"
    return pid


def command_of(process: psutil.Process) -> list[str]:
    """Its command line; that of a process that has just ended is empty."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def runs(process: psutil.Process) -> bool:
    """Whether it lives; one that ended but was not waited for does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
