"""How a task fails when a person has to act: without a retry, and with what to do as the last line of its log.

Airflow logs the exception of a failed task with its stack; what an exception says is cut at the edge of the screen and
followed by file names. So the exception says only what happened, and a callback that every task has says the rest when
Airflow has had its say.
"""

from __future__ import annotations

import logging
import textwrap
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from sessionizer.causes.remedies import cause_of_error
from sessionizer_airflow.errors import (
    JobFailed,
    OrphanedDrivers,
    PlanImpossible,
    SavepointsNotRemoved,
    StuckOperations,
    SupervisionEnded,
    UnusableDatabaseConnection,
    UnwatchedStreams,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.errors import SessionizerError

WIDTH: Final = 100
"""Columns that a task's log shows on an ordinary screen without scrolling."""
INDENT: Final = "    "
WHAT_TO_DO: Final = "What to do:"
KNOW_THEIR_REMEDY: Final = (
    SupervisionEnded, OrphanedDrivers, UnwatchedStreams, StuckOperations, SavepointsNotRemoved, PlanImpossible,
    JobFailed, UnusableDatabaseConnection,
)  # fmt: skip
GO_ON: Final = "then clear this task"
"""Of every task but the supervising one, whose DAG pauses itself: that one knows its remedy."""

log = logging.getLogger(__name__)


class PersonNeeded(AirflowFailException):
    """No retry can help: ``reason``. Then ``remedy``."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(reason)

    @classmethod
    def by(cls, error: SessionizerError, go_on: str = GO_ON) -> PersonNeeded:
        """The failure of a task because of ``error``. Raise it ``from None``: its stack helps no reader of the log."""
        return cls(reason_of(error), remedy_of(error, go_on))


def reason_of(error: SessionizerError) -> str:
    """What happened."""
    return f"gave up on {error.stream}: {error.reason}" if isinstance(error, SupervisionEnded) else str(error)


def remedy_of(error: SessionizerError, go_on: str = GO_ON) -> str:
    """What to do about it, and how to ``go_on`` then, unless the error knows."""
    if isinstance(error, KNOW_THEIR_REMEDY):
        return error.remedy
    return ", ".join(filter(None, (cause_of_error(error).remedy, go_on)))


def say_what_to_do(context: Mapping[str, Any]) -> None:
    """The ``on_failure_callback`` of every task."""
    error = context.get("exception")
    if isinstance(error, PersonNeeded):
        # Airflow has opened a group by now, which its UI shows folded.
        log.info("::endgroup::")
        log.error("%s", fitted(error.reason))
        log.error("%s", fitted(f"{WHAT_TO_DO} {error.remedy}"))


def fitted(text: str) -> str:
    """The text in lines that fit the screen; what to do about it begins one of its own. Paths stay whole."""
    parts = text.replace(f". {WHAT_TO_DO} ", f".\n{WHAT_TO_DO} ").splitlines()
    lines = (line for part in parts for line in _wrapped(part))
    return f"\n{INDENT}".join(lines)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
