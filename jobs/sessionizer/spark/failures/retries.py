"""Retries of two kinds of transient failures: a Python worker that was late, and a conflict in a Delta table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
)
from pyspark.errors import AnalysisException

from sessionizer.causes.query_causes import WORKER_LATE
from sessionizer.errors import QueryInterrupted, TransientError
from sessionizer.spark.failures.query_failure import classify_failure

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

TRIES: Final = 3
"""Number of tries of a step whose Python worker did not come up in time."""
CONFLICTS: Final = (
    ConcurrentAppendException, ConcurrentDeleteDeleteException, ConcurrentDeleteReadException, ConcurrentWriteException,
)  # fmt: skip
"""Delta's refusals of a change that read or replaced files which another change has replaced. They share no class."""
CONFLICT_TRIES: Final = 10
"""Number of tries of a change that others overtake. A compaction, which is the usual one, commits a few times."""


def is_transient_failure(error: Exception) -> bool:
    """Whether the next try may succeed, as the exit code of a command says it."""
    return not isinstance(error, AnalysisException) and isinstance(classify_failure("", error), TransientError)


def is_worker_late(error: Exception) -> bool:
    """Whether Spark gave up on a Python worker that had not connected in time: the machine is busy."""
    found = classify_failure("", error)
    return isinstance(found, QueryInterrupted) and found.cause == WORKER_LATE


def retry_late_worker(work: Callable[[], Result], say: Callable[[str], None]) -> Result:
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


def retry_conflicts(change: Callable[[], Result], tries: int = CONFLICT_TRIES) -> Result:
    """Return the result of ``change`` to a Delta table, which is idempotent. Retry it while others overtake it.

    Of two that replace the same files Delta refuses the later one. Raises its conflict after ``tries`` tries.
    """
    for left in reversed(range(tries)):
        try:
            return change()
        except CONFLICTS:
            if not left:
                raise
    raise AssertionError  # the last try returns or raises
