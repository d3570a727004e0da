"""The roots of the tree. The type of an error tells whether a retry can help."""

from __future__ import annotations

from typing import ClassVar


class SessionizerError(Exception):
    """The root of the tree. ``exit_code`` is the exit code of the command line."""

    exit_code: ClassVar[int] = 1


class TerminalError(SessionizerError):
    """A retry cannot help: the user must change something first."""

    exit_code = 10


class TransientError(SessionizerError):
    """The same call may succeed later: the supervisor retries with backoff."""

    exit_code = 20
