"""Failures that pass by themselves, and the retry of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.errors import AnalysisException

from sessionizer.causes.query_causes import WORKER_LATE
from sessionizer.errors import QueryInterrupted, TransientError
from sessionizer.spark.failures.query_failure import classified

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

TRIES: Final = 3
"""Number of tries of a step whose Python worker did not come up in time."""


def passes(error: Exception) -> bool:
    """Whether the next try may succeed, as the exit code of a command says it."""
    return not isinstance(error, AnalysisException) and isinstance(classified("", error), TransientError)


def is_worker_late(error: Exception) -> bool:
    """Whether Spark gave up on a Python worker that had not connected in time: the machine is busy."""
    found = classified("", error)
    return isinstance(found, QueryInterrupted) and found.cause == WORKER_LATE


def tried_again(work: Callable[[], Result], say: Callable[[str], None]) -> Result:
    """Return the result of ``work``, which is idempotent.

    It is done again if a Python worker was late, ``TRIES`` times.
    """
    for left in reversed(range(TRIES)):
        try:
            return work()
        except Exception as error:
            if not left or not is_worker_late(error):
                raise
            say("a Python worker did not come up in time, because the machine is busy: trying again")
    raise AssertionError  # the last try returns or raises
