"""The roots of the tree of our errors. The type of an error tells whether a retry can help."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class RetryEffect(StrEnum):
    """The effect of a retry."""

    TERMINAL = "terminal"
    """A retry ends the same way until the user has changed something, so none is made."""
    TRANSIENT = "transient"
    """The surroundings explain it. Retries continue for as long as they last, and are never given up."""
    UNCLEAR = "unclear"
    """A retry may help. If several in a row do not, the operator must look."""


class SessionizerError(Exception):
    """The root of the tree. A class without a ``title`` of its own is reported as its base class.

    ``exit_code`` is the exit code of the command line. ``title`` is the error's name in a sentence. ``remedy`` is a
    line of advice that names fields as ``{error.field}``. ``for_good``: the stream is over, and is not to be started.
    ``of_any_lineage``: no rollback helps, because the lineage before would meet it as well, or because it has a way
    back of its own.
    """

    exit_code: ClassVar[int] = 1
    title: ClassVar[str] = "the command failed"
    verdict: ClassVar[RetryEffect] = RetryEffect.UNCLEAR
    for_good: ClassVar[bool] = False
    of_any_lineage: ClassVar[bool] = False
    remedy: str = "correct what the message says, then try again"

    def advise(self) -> str | None:
        """Return a remedy for the command line that knows more than the one of the class. None if none does."""
        return None


class TerminalError(SessionizerError):
    """A retry cannot help: the user must change something first."""

    exit_code = 10
    title = "the command is refused"
    verdict = RetryEffect.TERMINAL
    remedy = "correct what the message says"


class TransientError(SessionizerError):
    """The same call may succeed later: the supervisor retries with backoff."""

    exit_code = 20
    title = "a service does not answer"
    verdict = RetryEffect.TRANSIENT
    remedy = "check the service that the message names"
