"""Causes of a query's failure, as errors that say whether a restart can help.

Decided by the text of Spark's exception.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentWriteException,
)
from pyspark.errors import AnalysisException

from sessionizer.causes.table import LEASE_LOST, QUERY_CAUSES, UNKNOWN, WORKER_LATE
from sessionizer.errors import (
    DiskFull,
    QueryFailed,
    QueryInterrupted,
    RetryEffect,
    SessionizerError,
    StoreUnreachable,
    TransientError,
    UnwritablePath,
)
from sessionizer.redaction import redact_and_cut

_BY_NAME: Final = {cause.name: cause for cause in QUERY_CAUSES}
CAUSE_OF_CLASS: Final = {name: cause for cause in QUERY_CAUSES for name in cause.classes}
_CLASS: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\]")
_COLUMNS_CHANGED: Final = re.compile(r"\[DELTA_SCHEMA_CHANGED\w*\] Detected schema change in version (\d+)")
_NAMED_CAUSE: Final = re.compile(r"\[FAILED_READ_FILE.*")
_BELOW: Final = re.compile(r"^Caused by: ([\w.$]+)(?:: (.*))?$", re.MULTILINE)
"""Each cause of a Java stack, with its class and its first line."""
_OTHER_HEADER: Final = re.compile(r"CSV header does not conform to the schema\.\s+Header: (.*)\n\s*Schema: (.*)\n")
_HEADER_LENGTH: Final = re.compile(r"Header length: (\d+), schema size: (\d+)")
_THROWN: Final = re.compile(r"(?:[\w.$]+(?:Exception|Error)|Caused by): ")
"""Name of a thrown class. Its message follows."""


def classify_failure(
    stream: str, error: BaseException, out_of_memory: Callable[[], str | None] = lambda: None
) -> SessionizerError:
    """Return the error that the driver ends with. ``out_of_memory`` is asked if the text leaves the cause open."""
    if isinstance(error, SessionizerError):
        return error
    text = f"{type(error).__name__}: {error}"
    whole = f"{text}\n{whole_text(error)}"
    seen = (each for each in QUERY_CAUSES if any(sign in (whole if each.deep else text) for sign in each.signs))
    cause = next(seen, _BY_NAME[UNKNOWN])
    if cause.is_general:
        cause = next((CAUSE_OF_CLASS[name] for name in _CLASS.findall(text) if name in CAUSE_OF_CLASS), cause)
    if (words := out_of_memory() if cause.may_be_memory else None) is not None:
        cause, text = _BY_NAME["memory"], f"{words}; then {text}"
    elif cause.is_one_line:
        text = next(sign for sign in cause.signs if sign in whole)
    elif (line := _telling_line(whole if cause.deep else text, cause.texts)) is not None:
        text = f"{line}\n{text}"
    kind = QueryFailed if cause.verdict is RetryEffect.TERMINAL or cause.name == LEASE_LOST else QueryInterrupted
    return kind(stream, cause.name, redact_and_cut(text, 2_000))


def store_failure(
    error: Exception, location: str, purpose: str, detail: str
) -> DiskFull | StoreUnreachable | UnwritablePath | QueryFailed | QueryInterrupted:
    """Translate ``error`` from using ``location`` as ``purpose`` into one of our errors, for any store below it."""
    found = classify_failure("", error)
    if not isinstance(found, QueryFailed | QueryInterrupted):
        return UnwritablePath(location, purpose, detail)
    if found.cause in {"python_worker_late", "store_jars_missing"}:
        return found
    if found.cause == "disk_full":
        return DiskFull(location, purpose, detail)
    return (StoreUnreachable if found.cause == "unreachable" else UnwritablePath)(location, purpose, detail)


def _telling_line(text: str, known: tuple[str, ...]) -> str | None:
    """Return the line of ``text`` that has a ``known`` text, without the classes around it.

    Without such a line, the last one of a traceback. None if the first line says it. A failure below the writing of a
    batch comes as the stack of a Python, then that of a JVM, and users are shown the first line only.
    """
    first, *others = text.splitlines() or [""]
    if any(sign in first for sign in known):
        return None
    # an indented line is a place in a program
    said = [line for line in others if line and not line[0].isspace()]
    found = next((_cut_before_sign(line, sign) for line in said for sign in known if sign in line), None)
    return found or (said[0] if said and first.endswith("Traceback (most recent call last):") else None)


def _cut_before_sign(line: str, sign: str) -> str:
    """Return the last message before the sign, because the names of error classes may be nested."""
    before = line.index(sign)
    begin = max((thrown.end() for thrown in _THROWN.finditer(line, 0, before)), default=0)
    return line[begin:].strip()


def whole_text(error: BaseException) -> str:
    """Return the messages of an error and its causes, and the stack of each that Java has."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    # two errors are each other's cause if one was handled while the other was, and then raised again
    while cause is not None and not any(cause is each for each in seen):
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return "\n".join(str(getattr(each, "_stackTrace", None) or each) for each in seen)


def columns_changed(error: Exception) -> str | None:
    """Return how a Delta source's columns changed, which a query that starts anew may read. None for another error."""
    found = _COLUMNS_CHANGED.search(str(error))
    return f"the columns of the source changed in its version {found[1]}" if found else None


def cause_in_one_line(said: str) -> str | None:
    """Find the cause in the text of an error about a file, None if it names none."""
    if other := _OTHER_HEADER.search(said):
        return other_header(other[1].split(", "), other[2].split(", "))
    if length := _HEADER_LENGTH.search(said):
        return other_length(int(length[1]), int(length[2]))
    if (named := _NAMED_CAUSE.search(said)) is None:
        return None
    # a class that says why is enough, the other has only the name of the file
    thrown = _BELOW.findall(said, named.end()) if "NO_HINT]" in named[0] else []
    below = [message.strip() or name.rpartition(".")[2] for name, message in thrown]
    return ": ".join(dict.fromkeys(below)) or named[0].strip()


def other_length(header: int, columns: int) -> str:
    """Say that a header has another number of columns."""
    return f"the header has {header} columns where source.columns has {columns}"


def other_header(header: Sequence[str], columns: Sequence[str]) -> str:
    """Say which columns of a header differ first. Spark compares name by name, ignoring case, and fails there."""
    pairs = enumerate(zip(header, columns, strict=False), start=1)
    number, (found, wanted) = next(pair for pair in pairs if pair[1][0].lower() != pair[1][1].lower())
    place = f"(column {number})"
    return f"the header has {found} where source.columns has {wanted} {place}. Columns of CSV are matched by position"


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
    """Return the result of the idempotent ``work``, done again if a Python worker was late, ``TRIES`` times."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except Exception as error:
            if not is_worker_late(error):
                raise
            say("a Python worker did not come up in time, because the machine is busy: trying again")
    return work()


def retry_conflicts(change: Callable[[], Result], tries: int = CONFLICT_TRIES) -> Result:
    """Return the result of the idempotent ``change``, retried while others replace the same files of the table."""
    for _ in range(tries - 1):
        with suppress(*CONFLICTS):
            return change()
    return change()
