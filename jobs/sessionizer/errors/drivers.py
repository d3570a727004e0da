"""Errors about the right to drive a stream or write its tables, and about the end of a query."""

from __future__ import annotations

from sessionizer.errors.tree import TerminalError, TransientError


class LeaseHeld(TerminalError):
    """The stream already has a live driver. A second one would corrupt nothing, and is refused."""

    exit_code = 14

    def __init__(self, stream: str, uid: str, pid: int, host: str) -> None:
        self.stream, self.uid, self.pid, self.host = stream, uid, pid, host
        super().__init__(f"stream {stream!r} already has a live driver: {uid} (pid {pid} on {host})")


class LeaseLost(TerminalError):
    """A newer driver took over (``newest`` token > ours). Rows that we write now could be written twice."""

    exit_code = 15

    def __init__(self, stream: str, token: int, newest: int) -> None:
        self.stream, self.token, self.newest = stream, token, newest
        reason = (
            f"token {newest} is newer" if newest > token else "its lease record is gone or belongs to another driver"
        )
        super().__init__(
            f"the driver of stream {stream!r} lost the lease: it holds fencing token {token}, but {reason}"
        )


class DriverStillRuns(TransientError):
    """A driver (``uid``) of ``stream`` was asked to stop, and its batch was not over after ``waited_s`` seconds."""

    exit_code = 3

    def __init__(self, stream: str, uid: str, waited_s: float) -> None:
        self.stream, self.uid, self.waited_s = stream, uid, waited_s
        super().__init__(f"driver {uid} of stream {stream!r} still runs {waited_s:g} s after the request to stop")


class TableOwned(TerminalError):
    """The table at ``location`` belongs to ``owner``. A second writer would write every session into it once more.

    ``stream`` is the refused stream. Owners are streams of a platform home, such as ``clicks@1f2e…``.
    """

    exit_code = 18

    def __init__(self, location: str, owner: str, stream: str) -> None:
        self.location, self.owner, self.stream = location, owner, stream
        super().__init__(f"the table at {location} belongs to {owner}, not to {stream}")


class DataOwned(TerminalError):
    """The stream's data at ``location`` belongs to ``owner``, the stream of another ``home`` (a path on a host).

    ``stream`` is the refused stream, as in ``TableOwned``.
    """

    exit_code = 18

    def __init__(self, location: str, owner: str, home: str, stream: str) -> None:
        self.location, self.owner, self.home, self.stream = location, owner, home, stream
        super().__init__(f"the data at {location} belongs to {owner} of home {home}, not to {stream}")


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

    def __init__(self, door: str, missing: str) -> None:
        self.door, self.missing = door, missing
        super().__init__(f"the private part {door!r} of Spark or Delta has changed: {missing}")
