"""Causes of a query's failure, as errors that say whether a restart can help.

Decided by the text of Spark's exception.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.errors import (
    DiskFull,
    QueryFailed,
    QueryInterrupted,
    SessionizerError,
    StoreUnreachable,
    UnwritablePath,
)
from sessionizer.redaction import redacted_and_cut
from sessionizer.spark.failures.state_classes import cause_of_state_class, classes_of
from sessionizer.spark.failures.telling_line import telling_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A known failure: its name, the texts that identify it, and whether it would happen again.

    ``deep``: the texts count anywhere in the chain of causes, below Spark's own wrapping.
    """

    name: str
    signs: tuple[str, ...]
    terminal: bool
    deep: bool = False


PRIVATE_DOOR: Final = "private_door"
WORKER_LATE: Final = "python_worker_late"
"""Spark gives a Python worker ten seconds to connect, without a setting for it. A busy machine takes longer."""

# The first that matches wins: exact signs stand before general ones.
CAUSES: Final = (
    KnownFailure(
        "disk_full",
        (
            "No space left on device", "Disk quota exceeded", "DSQuotaExceededException", "NSQuotaExceededException",
            "could only be written to 0 of the",
        ),
        terminal=False, deep=True,
    ),
    KnownFailure(PRIVATE_DOOR, ("PrivateDoorBroken: ",), terminal=True, deep=True),
    KnownFailure(
        "memory", ("java.lang.OutOfMemoryError", "MemoryError", "Cannot allocate memory"), terminal=False, deep=True
    ),
    KnownFailure(
        WORKER_LATE,
        (
            "Python worker failed to connect back", "Timed out while waiting for the Python worker to connect back",
            "but an error occurred: timed out",  # of a socket from the JVM to our Python
        ),
        terminal=False, deep=True,
    ),
    KnownFailure("lease_lost", ("CONCURRENT_STREAM_LOG_UPDATE", "STREAM_CHECKPOINTING_CONCURRENT"), terminal=True),
    KnownFailure(
        "source_data_loss",
        (
            "KAFKA_DATA_LOSS", "Some data may have been lost", "OffsetOutOfRangeException", "DELTA_FILE_NOT_FOUND",
            # a Delta source's log was cut off before the stream had read it
            "DELTA_MISSING_FILES_UNEXPECTED_VERSION", "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
            "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
            # a table made anew while the stream ran: a driver that starts says SourceReplaced
            "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        ),
        terminal=True,
    ),
    KnownFailure(
        "source_forbidden",
        (
            "TopicAuthorizationException", "ClusterAuthorizationException", "GroupAuthorizationException",
            "SaslAuthenticationException", "SslAuthenticationException",
        ),
        terminal=True, deep=True,
    ),
    # a broker that is down for a moment says so, too: the next driver asks before it starts
    KnownFailure("source_missing", ("UnknownTopicOrPartitionException",), terminal=False, deep=True),
    KnownFailure(
        # a broker, a name node, a store: what Java says of it, as Python's own "Connection refused" is of our JVM
        "unreachable",
        (
            "java.net.ConnectException", "java.net.NoRouteToHostException", "java.net.UnknownHostException",
            "java.net.SocketTimeoutException", "java.net.SocketException: Connection reset",
            "java.net.SocketException: Broken pipe", "org.apache.hadoop.net.ConnectTimeoutException",
            "org.apache.kafka.common.errors.TimeoutException", "org.apache.kafka.common.errors.DisconnectException",
            "org.apache.kafka.common.errors.NetworkException", "org.apache.kafka.common.errors.NotLeader",
            "org.apache.kafka.common.errors.LeaderNotAvailable", "org.apache.hadoop.hdfs.server.namenode.SafeMode",
            "org.apache.hadoop.ipc.StandbyException", "org.apache.hadoop.ipc.RetriableException",
        ),
        terminal=False, deep=True,
    ),
    KnownFailure(
        "state_not_at_head",
        (
            "CANNOT_LOAD_STATE_STORE", "CheckpointInfo length", "STATE_STORE_COMMIT_VALIDATION", "CANNOT_RESTORE",
            "Incomplete log file in the",
        ),
        terminal=True,
    ),
    KnownFailure(
        "state_refused", ("STATE_STORE_INVALID_CONFIG_AFTER_RESTART", "STATE_STORE_INVALID_PROVIDER"), terminal=True
    ),
    KnownFailure(
        "schema_change",
        (
            "DELTA_SCHEMA_CHANGED", "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE", "STATE_STORE_VALUE_SCHEMA",
            "STATE_STORE_KEY_SCHEMA", "STREAMING_STATEFUL_OPERATOR_NOT_MATCH", "DELTA_FAILED_TO_MERGE_FIELDS",
            "DELTA_METADATA_MISMATCH",
        ),
        terminal=True,
    ),
    KnownFailure(
        "source_rewritten",
        ("DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES"),
        terminal=True,
    ),
    KnownFailure(
        "bad_option",
        (
            "Invalid value '", "Failed to parse time string", "Failed to parse byte string",
            "org.apache.kafka.common.config.ConfigException",
        ),
        terminal=True,
    ),
    KnownFailure(
        "bad_data", ("FAILED_READ_FILE", "PARQUET_COLUMN", "CANNOT_READ_FILE", "is not a Parquet file"), terminal=True
    ),
    KnownFailure(
        "driver_jvm_died",
        # not Py4JJavaError, which is Java's answer: this is none
        (
            "Py4JNetworkError", "Answer from Java side is empty", "Connection refused",
            "Py4JError: An error occurred while calling",
        ),
        terminal=False,
    ),
    KnownFailure("state_silent", ("TimeoutError: timed out", "cannot read from timed out object"), terminal=False),
    KnownFailure(
        "executor_lost",
        (
            "ExecutorLostFailure", "Python worker exited unexpectedly", "FetchFailed", "MetadataFetchFailedException",
            "SparkContext has been shut down", "SparkContext was shut down", "All masters are unresponsive",
        ),
        terminal=False,
    ),
)  # fmt: skip
UNKNOWN: Final = KnownFailure("unknown", (), terminal=False)
WITHOUT_WORDS: Final = frozenset({"unknown", "driver_jvm_died", "executor_lost", "state_silent"})
"""Causes that the end of a JVM without memory can look like in Python."""
SAID_IN_A_LINE: Final = frozenset({WORKER_LATE})
"""Causes about which the stack says nothing more."""
GENERAL: Final = frozenset({"unknown", "state_not_at_head", "schema_change", "state_refused"})
"""Causes about which Spark's class says more than the signs."""
_BY_NAME: Final = {cause.name: cause for cause in CAUSES}
_COLUMNS_CHANGED: Final = re.compile(r"\[DELTA_SCHEMA_CHANGED\w*\] Detected schema change in version (\d+)")
_DETAIL_LIMIT = 2_000


def classified(
    stream: str, error: BaseException, out_of_memory: Callable[[], str | None] = lambda: None
) -> SessionizerError:
    """Return the error that the driver ends with. An error of ours is passed on as it is.

    ``out_of_memory`` is called if the error leaves the cause open. It returns the JVM's message if its memory ran out.
    """
    if isinstance(error, SessionizerError):
        return error
    text = f"{type(error).__name__}: {error}"
    whole = "\n".join((text, *_causes(error)))
    cause = next((cause for cause in CAUSES if _shows(cause, whole if cause.deep else text)), UNKNOWN)
    by_class = cause_of_state_class(text) if cause.name in GENERAL else None
    cause = _BY_NAME[by_class] if by_class is not None else cause
    words = out_of_memory() if cause.name in WITHOUT_WORDS else None
    if words is not None:
        cause, text = _BY_NAME["memory"], f"{words}; then {text}"
    elif cause.name in SAID_IN_A_LINE:
        text = next(sign for sign in cause.signs if sign in whole)
    elif (line := telling_line(whole if cause.deep else text, (*cause.signs, *classes_of(cause.name)))) is not None:
        text = f"{line}\n{text}"
    kind = QueryFailed if cause.terminal else QueryInterrupted
    return kind(stream, cause.name, redacted_and_cut(text, _DETAIL_LIMIT))


def store_failure(
    error: Exception, location: str, purpose: str, detail: str
) -> DiskFull | StoreUnreachable | UnwritablePath | QueryInterrupted:
    """Translate ``error`` from using ``location`` as ``purpose`` into one of our errors, for any store below it."""
    found = classified("", error)
    cause = found.cause if isinstance(found, QueryInterrupted) else None
    match cause:
        case "python_worker_late" if isinstance(found, QueryInterrupted):
            return found
        case "disk_full":
            return DiskFull(location, purpose, detail)
        case "unreachable":
            return StoreUnreachable(location, purpose, detail)
        case _:
            return UnwritablePath(location, purpose, detail)


def _shows(cause: KnownFailure, text: str) -> bool:
    return any(sign in text for sign in cause.signs)


def _causes(error: BaseException) -> Iterator[str]:
    """Yield the causes of an error: Python's, and the Java stack, which names Java's."""
    seen: BaseException | None = error
    while seen is not None:
        yield str(getattr(seen, "_stackTrace", None) or seen)
        seen = seen.__cause__ or seen.__context__


def columns_changed(error: Exception) -> str | None:
    """Return the version of a Delta source at which its columns changed, None for another error.

    A query that starts anew may run with the new columns.
    """
    found = _COLUMNS_CHANGED.search(str(error))
    return f"the columns of the source changed in its version {found[1]}" if found else None
