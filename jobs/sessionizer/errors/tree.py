"""The roots of the tree: whether a retry can help is a type."""

from __future__ import annotations

from typing import ClassVar


class SessionizerError(Exception):
    """Root of the tree. ``exit_code`` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class TerminalError(SessionizerError):
    """A retry cannot help: somebody has to change something first."""

    exit_code = 10


class TransientError(SessionizerError):
    """The same call may succeed later: the supervisor retries with backoff."""

    exit_code = 20
