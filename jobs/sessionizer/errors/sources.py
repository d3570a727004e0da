"""Errors of a source that answers: a change of the source or of the spec, or a decision about a loss, is needed."""

from __future__ import annotations

from sessionizer.errors.tree import TerminalError


class SourceMissing(TerminalError):
    """The source of ``stream`` is not there: ``field`` of its spec names ``name``, which ``place`` does not have."""

    exit_code = 46

    def __init__(self, stream: str, field: str, name: str, place: str) -> None:
        self.stream, self.field, self.name, self.place = stream, field, name, place
        super().__init__(f"{field} of stream {stream!r} is {name!r}, which {place} does not have")


class SourceForbidden(TerminalError):
    """The driver of ``stream`` may not read ``name`` (``field`` of its spec) at ``place``: ``cause``."""

    exit_code = 47

    def __init__(self, stream: str, field: str, name: str, place: str, cause: str) -> None:
        self.stream, self.field, self.name, self.place, self.cause = stream, field, name, place, cause
        super().__init__(f"stream {stream!r} may not read {name!r} ({field}) at {place}: {cause}")


class SourceReplaced(TerminalError):
    """``name`` in the source of ``stream`` has the identity ``now``, and the stream has read one that was ``known``."""

    exit_code = 48

    def __init__(self, stream: str, name: str, known: str, now: str) -> None:
        self.stream, self.name, self.known, self.now = stream, name, known, now
        super().__init__(
            f"{name!r} of stream {stream!r} was replaced under its old name: its id was {known} and is now {now}. "
            "The positions that were read do not apply to it"
        )
