"""The number of a process that is to get a signal."""

from __future__ import annotations


def known(pid: int | None) -> int:
    """``pid``, which a record or a process that never started lacks: to 0 a signal would end the tests themselves."""
    assert pid, "there is no process to send a signal to"
    return pid
