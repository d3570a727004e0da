"""Errors between Airflow and a driver. The tree that they extend is in ``sessionizer.errors``.

Failure of a task that needs a user: no retry, and the remedy as the last line of its log.

Airflow logs the exception of a failed task with its stack. The text of an exception is cut at the edge of the screen
and followed by file names. So the exception says only what happened. A callback of every task logs the remedy after
Airflow's own lines.
"""

import logging
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from airflow.sdk.exceptions import AirflowFailException

from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import remedy_for
from sessionizer.errors import OfStream, SessionizerError, TerminalError, TransientError, every_problem
from sessionizer.redaction import redact


class BrokenSpecs(TerminalError):
    """Spec files that cannot be loaded. ``problems`` has the error of each."""

    problems: Sequence[TerminalError]

    def __str__(self) -> str:
        every = (each for problem in self.problems for each in every_problem(problem))
        found = "\n".join(f"- {redact(str(each))}" for each in every)
        return f"{len(self.problems)} broken in the folder of streams:\n{found}"


class HomeMissing(TerminalError):
    """``variable``, the platform's home, is not set or relative. In Airflow it has no default."""

    message = (
        "{0.variable} is not set to an absolute path: give the same to all processes of Airflow "
        "(scheduler, workers, triggerer, DAG processor, API server)"
    )
    variable: str


class UnusableDatabaseConnection(TerminalError):
    """``connection`` cannot be used for a database, because of ``problem``. ``remedy`` says what to do."""

    message = "connection {0.connection!r}: {0.problem}"
    connection: str
    problem: str
    remedy: str


class SupervisionEnded(TerminalError):
    """The supervisor of ``stream`` gave up for ``reason``. ``remedy`` tells the user what to do."""

    stream: str
    reason: str
    remedy: str

    def __init__(self, stream: str, reason: str, remedy: str) -> None:
        super().__init__(stream, reason, name_stream(remedy, stream))

    def __str__(self) -> str:
        return redact(f"gave up on {self.stream}: {self.reason}. What to do: {self.remedy}")


class StreamFindings(TerminalError):
    """Findings about several streams. ``lines`` has one for each, ``remedy`` says what to do."""

    lines: Sequence[str]
    remedy: str

    def __str__(self) -> str:
        return redact("; ".join(self.lines))


class WatchCancelled(OfStream, TransientError):
    """A user or Airflow ended the task that worked for ``stream``."""

    message = "the watch of {0.stream} was cancelled"


WIDTH: Final = 100
"""Columns that a task's log shows on an ordinary screen without scrolling."""
INDENT: Final = "    "
WHAT_TO_DO: Final = "What to do:"
GO_ON: Final = "then clear this task"
"""Next step for every task but the supervising one. That task's DAG pauses itself, and its error has its own remedy."""

log = logging.getLogger(__name__)


class PersonNeeded(AirflowFailException):
    """No retry can help, because of ``reason``. ``remedy`` tells the user what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(reason)

    @classmethod
    def wrap(cls, error: SessionizerError, go_on: str = GO_ON) -> Self:
        """Return the failure of a task because of ``error``. Raise it ``from None``: its stack helps no reader.

        ``go_on`` is added to the remedy as the last step, unless the error has a remedy of its own.
        """
        reason = f"gave up on {error.stream}: {error.reason}" if isinstance(error, SupervisionEnded) else str(error)
        return cls(reason, vars(error).get("remedy", ", ".join(filter(None, (remedy_for(error), go_on)))))


def say_what_to_do(context: Mapping[str, Any]) -> None:
    """Log the reason and the remedy of a failed task, as its ``on_failure_callback``."""
    error = context.get("exception")
    if isinstance(error, PersonNeeded):
        # Airflow has opened a group by now, which its UI shows folded.
        log.info("::endgroup::")
        log.error("%s", fit_lines(error.reason))
        log.error("%s", fit_lines(f"{WHAT_TO_DO} {error.remedy}"))


def fit_lines(text: str) -> str:
    """Wrap the text into lines that fit the screen. The remedy begins a new line, and paths stay whole."""
    parts = text.replace(f". {WHAT_TO_DO} ", f".\n{WHAT_TO_DO} ").splitlines()
    wrapped = (textwrap.wrap(part, WIDTH, break_long_words=False, break_on_hyphens=False) or [""] for part in parts)
    return f"\n{INDENT}".join(line for lines in wrapped for line in lines)
