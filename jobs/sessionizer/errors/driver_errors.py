"""Errors about the right to drive a stream, and about the end of a driver or its query."""

from __future__ import annotations

from sessionizer.errors.tree import RetryEffect, TerminalError, TransientError


class LeaseHeld(TerminalError):
    """A live process, a driver or a command, has the lease of ``stream``. A second one is refused."""

    exit_code = 14
    title = "another process has the lease"
    verdict = RetryEffect.TRANSIENT
    remedy = (
        "wait until the process ends: `sessionizer status` tells what it does. End a driver with `sessionizer stop …`"
    )

    def __init__(self, stream: str, uid: str, pid: int, host: str) -> None:
        self.stream, self.uid, self.pid, self.host = stream, uid, pid, host
        super().__init__(f"the lease of stream {stream!r} is held by {uid} (pid {pid} on {host})")


class LeaseLost(TerminalError):
    """A newer process took over (``newest`` token > ours). Rows that we write now could be written twice."""

    exit_code = 15
    title = "another process took over the lease"
    verdict = RetryEffect.TRANSIENT
    remedy = "do nothing: the other process continues"

    def __init__(self, stream: str, token: int, newest: int) -> None:
        self.stream, self.token, self.newest = stream, token, newest
        reason = (
            f"token {newest} is newer" if newest > token else "its lease record is gone or belongs to another process"
        )
        super().__init__(
            f"this process lost the lease of stream {stream!r}: it holds fencing token {token}, but {reason}"
        )


class DriverStillRuns(TransientError):
    """The driver or command ``uid`` of ``stream`` was asked to stop, and had not ended after ``waited_s`` seconds."""

    exit_code = 3
    title = "a process has not ended yet"
    remedy = (
        "wait until its batch or command is over (`sessionizer status`), then try again. Or wait longer with --wait"
    )

    def __init__(self, stream: str, uid: str, waited_s: float) -> None:
        self.stream, self.uid, self.waited_s = stream, uid, waited_s
        super().__init__(f"process {uid} of stream {stream!r} still runs {waited_s:g} s after the request to stop")


class QueryFailed(TerminalError):
    """The streaming query ended with ``cause`` (a condition name), and would end the same way again."""

    exit_code = 16

    def __init__(self, stream: str, cause: str, detail: str) -> None:
        self.stream, self.cause, self.detail = stream, cause, detail
        super().__init__(f"the query of stream {stream!r} failed ({cause}): {detail}")


class QueryInterrupted(TransientError):
    """The streaming query ended with a ``cause`` in its surroundings, not in its input or code."""

    exit_code = 22

    def __init__(self, stream: str, cause: str, detail: str) -> None:
        self.stream, self.cause, self.detail = stream, cause, detail
        super().__init__(f"the query of stream {stream!r} was interrupted ({cause}): {detail}")


class PrivateDoorBroken(TerminalError):
    """A private part of Spark, Delta or PySpark that ``door`` uses is not there: ``missing`` names it."""

    exit_code = 16
    title = "a private part of Spark or Delta has moved"
    remedy = (
        "set SESSIONIZER_PLAIN_SPARK=1 where drivers are started. They then use public interfaces only: slower, and as "
        "exact. Or return to the earlier Spark and Delta"
    )

    def __init__(self, door: str, missing: str) -> None:
        self.door, self.missing = door, missing
        super().__init__(f"the private part {door!r} of Spark or Delta has changed: {missing}")
