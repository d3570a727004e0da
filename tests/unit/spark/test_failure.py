"""What a query died of, where the reason lies deep below what Spark makes of it."""

import errno
import re
from pathlib import Path

import pytest

from sessionizer.causes.table import CAUSES
from sessionizer.errors import DiskFull, QueryFailed, QueryInterrupted, RetryEffect, StoreUnreachable, UnwritablePath
from sessionizer.launch.driver_environment import LOGGING
from sessionizer.spark.driver.executors import LAST_BYTES, find_memory_message
from sessionizer.spark.failures.query_failure import (
    CONFLICT_TRIES,
    CONFLICTS,
    cause_in_one_line,
    classify_failure,
    is_transient_failure,
    is_worker_late,
    retry_conflicts,
    store_failure,
)
from support.fixtures.reviewed import Reviewed


class Captured(Exception):
    """As PySpark's: the message says what Spark was at, the Java stack has the chain of causes."""

    def __init__(self, message: str, stack: str = "") -> None:
        super().__init__(message)
        self._stackTrace = stack


FULL = "Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device"
AWAY = "Caused by: java.net.ConnectException: Call From worker-3 to namenode:8020 failed"
NOT_COMMITTED = "[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing state store files"
NOT_LOADED = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."
NOT_READ = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file hdfs://namenode/feed/a.parquet."
LATE = "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat PythonWorkerFactory"
CAUSED_LATE = (
    "Caused by: java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back"
)
POLLED = "Caused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired"


STATE = "Caused by: java.lang.IllegalStateException"
WORDS = "java.lang.OutOfMemoryError: Java heap space"


def died_of(message: str, stack: str = "", memory: str | None = None) -> QueryInterrupted | QueryFailed:
    died = classify_failure("clicks", Captured(message, stack), lambda: memory)
    assert isinstance(died, QueryInterrupted | QueryFailed)
    return died


@pytest.mark.parametrize(
    ("message", "stack", "cause"),
    [
        (NOT_COMMITTED, FULL, "disk_full"),
        (NOT_LOADED, FULL, "disk_full"),
        (NOT_READ, FULL, "disk_full"),
        ("Disk quota exceeded", "", "disk_full"),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota", "", "disk_full"),
        (NOT_LOADED, AWAY, "unreachable"),
        (NOT_READ, AWAY, "unreachable"),
        ("[STREAM_FAILED] Query terminated with exception", POLLED, "unreachable"),
        ("Py4JNetworkError: [Errno 111] Connection refused", "", "driver_jvm_died"),
        ("Job aborted due to stage failure", LATE, "python_worker_late"),
        ("[STREAM_FAILED] Query terminated with exception", CAUSED_LATE, "python_worker_late"),
        ("[CANNOT_OPEN_SOCKET] tried to connect, but an error occurred: timed out", "", "python_worker_late"),
    ],
)
def test_what_lies_below_decides_that_a_restart_helps(message: str, stack: str, cause: str) -> None:
    died = died_of(message, stack)
    assert (type(died), died.cause) == (QueryInterrupted, cause)


@pytest.mark.parametrize(
    ("message", "stack", "cause"),
    [
        ("CheckpointInfo length: 0", STATE, "state_not_at_head"),
        (NOT_READ, STATE, "bad_data"),
        ("[KAFKA_DATA_LOSS]", STATE, "source_data_loss"),
        ("[DELTA_MISSING_FILES_UNEXPECTED_VERSION] Delta stream cannot resume", STATE, "source_data_loss"),
        ("[KAFKA_DATA_LOSS]", POLLED, "source_data_loss"),
    ],
)
def test_without_such_a_reason_it_would_happen_again(message: str, stack: str, cause: str) -> None:
    """Events that are gone stay gone when a broker is away too, or the JVM has no memory."""
    for memory in (None, WORDS) if message.startswith("[KAFKA") else (None,):
        died = died_of(message, stack, memory)
        assert (type(died), died.cause) == (QueryFailed, cause)


def test_errors_that_are_each_others_cause_are_read_once() -> None:
    outer, inner = Captured("no folder"), Captured(NOT_COMMITTED, FULL)
    outer.__cause__, inner.__context__ = inner, outer
    died = classify_failure("clicks", outer)
    assert (type(died), getattr(died, "cause", None)) == (QueryInterrupted, "disk_full")


def test_a_late_worker_is_told_in_a_line_and_tried_again() -> None:
    error = Captured("An error occurred while calling o1.collect", LATE + "\n\tat java.lang.Thread.run" * 140)
    died = classify_failure("clicks", error)
    assert isinstance(died, QueryInterrupted)
    assert len(died.detail.splitlines()) == 1
    assert CAUSES[died.cause].verdict is RetryEffect.TRANSIENT, "it uses up no restart"
    assert is_transient_failure(error)
    assert is_worker_late(error)
    assert not is_worker_late(Captured("An error occurred", AWAY))


def test_a_cause_of_pythons_own_counts_too() -> None:
    error = RuntimeError("the batch could not be written")
    assert isinstance(store_failure(error, "/lake", "the table", "so"), UnwritablePath)
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert isinstance(store_failure(error, "/lake", "the table", "so"), DiskFull)
    away = Captured("An error occurred while calling o1.execute", AWAY)
    assert isinstance(store_failure(away, "hdfs://namenode/lake", "the table", "so"), StoreUnreachable)


BELOW_PYTHON = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/jobs/sinks/write.py", line 69, in write
    rows = emitted.collect()  # {said}
py4j.protocol.Py4JJavaError: An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: org.apache.spark.SparkException: {said}
\tat org.apache.spark.rdd.RDD.iterator
Caused by: java.io.IOException
"""
LOST = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error occurred during loading state."


@pytest.mark.parametrize(
    ("said", "cause", "line"),
    [
        (NOT_READ, "bad_data", NOT_READ),
        (LOST, "state_not_at_head", LOST),
        (
            "Futures timed out",
            "unknown",
            "py4j.protocol.Py4JJavaError: An error occurred while calling o1.collectToPython.",
        ),
    ],
)
def test_the_first_line_says_what_failed_below_the_writing_of_a_batch(said: str, cause: str, line: str) -> None:
    died = died_of(BELOW_PYTHON.format(said=said))
    assert (died.cause, died.detail.splitlines()[0]) == (cause, line)
    repeated = died_of(f"{NOT_READ}\nCaused by: {NOT_READ}").detail
    assert repeated.startswith(f"Captured: {NOT_READ}\nCaused by"), "a line that comes first is not repeated"


SHUT_DOWN = "Job 7 cancelled because SparkContext was shut down"
FELL_OVER = 'Cannot invoke "DAGScheduler.cleanupQueryJobs(long)" because "SparkContext.dagScheduler()" is null'


@pytest.mark.parametrize("message", [SHUT_DOWN, FELL_OVER, "Py4JNetworkError: Answer from Java side is empty"])
def test_a_jvm_that_had_no_memory_left_is_no_lost_executor(message: str) -> None:
    died = died_of(message, memory=WORDS)
    assert (type(died), died.cause) == (QueryInterrupted, "memory")
    assert WORDS in died.detail
    assert message in died.detail


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_a_change_that_others_overtake_is_tried_again_a_few_times(conflict: type[Exception]) -> None:
    def change() -> str:
        if overtaken:
            raise overtaken.pop()
        return "done"

    overtaken = [conflict("overtaken") for _ in range(CONFLICT_TRIES - 1)]
    assert retry_conflicts(change) == "done"
    overtaken = [conflict("overtaken") for _ in range(CONFLICT_TRIES)]
    with pytest.raises(conflict):
        retry_conflicts(change)
    assert retry_conflicts(change, tries=1) == "done"


STACK = "\n".join(f"\tat org.apache.spark.Frame.number{number}(Frame.scala)" for number in range(780))
NAMED = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///feed/1.csv.  SQLSTATE: KD001"


def said(cause: str) -> str:
    return f"Job aborted.\n{NAMED}\n{STACK}\nCaused by: java.lang.IllegalArgumentException: {cause}\n{STACK}"


OTHER_ORDER = (
    "CSV header does not conform to the schema.\n Header: ID, ts, user_id\n Schema: id, user_id, ts\n"
    "Expected: user_id but found: ts\nCSV file: file:///feed/1.csv"
)
OTHER_LENGTH = (
    "Number of column in CSV header is not equal to number of fields in the schema:\n"
    " Header length: 2, schema size: 3\nCSV file: file:///feed/1.csv"
)


@pytest.mark.parametrize("cause", [OTHER_ORDER, OTHER_LENGTH], ids=["another order", "another length"])
def test_of_a_header_the_first_two_names_that_differ_or_both_lengths(cause: str, reviewed: Reviewed) -> None:
    reviewed(cause_in_one_line(said(cause)))


def test_of_any_other_file_the_causes_below_or_the_line_that_names_it() -> None:
    assert cause_in_one_line(said("no dictionary\nCaused by: java.io.EOFException\n")) == "no dictionary: EOFException"
    assert cause_in_one_line(NAMED) == NAMED
    mismatch = NAMED.replace("NO_HINT", "PARQUET_COLUMN_DATA_TYPE_MISMATCH")
    assert cause_in_one_line(said("column: [a]").replace(NAMED, mismatch)) == mismatch
    assert cause_in_one_line("No space left on device") is None, "it is of no file"


KNOWN = re.compile(re.search(r"^appender\.stderr\.filter\.known\.regex = (.*)$", LOGGING.read_text(), re.MULTILINE)[1])  # type: ignore[index]


@pytest.mark.parametrize(
    "message",
    [
        "Could not validate number of records due to missing statistics.",
        (
            "Assume no metadata directory. Error while looking for metadata directory in the path: "
            "file:/h/streams/clicks/lineages/1/punctuations/001795644128093-5c329e2d.json."
        ),
        (
            "The directory file:/h/streams/clicks/lineages/1/punctuations/001795644128093-5c329e2d.json was not found. "
            "Was it deleted very recently?"
        ),
        "The read limit ReadMaxBytes(134217728) for DeltaSource[file:/h/src] is ignored when Trigger.Once is used.",
        "The read limit MaxRows: 5000000 for KafkaV2[Subscribe[clicks]] is ignored when Trigger.Once is used.",
        "Your hostname, h, resolves to a loopback address: 127.0.1.1; using 10.0.0.1 instead (on interface eth0)",
    ],
)
def test_what_nobody_can_act_on_is_left_out(message: str) -> None:
    assert KNOWN.fullmatch(message)


@pytest.mark.parametrize(
    "message",
    [
        "Query clicks [id = 1, runId = 2] terminated with error",
        "Python worker failed to connect back.",
        "Error running maintenance thread",
        "The directory file:/h/feed/1.json was not found. Was it deleted very recently?",
        "Lost task 0.0 in stage 3.0 (TID 3) (h executor driver): java.io.FileNotFoundException: /in/1.json",
        "The number of records in the added files does not match that of the removed files",
    ],
)
def test_what_tells_of_a_failure_is_not(message: str) -> None:
    assert not KNOWN.fullmatch(message)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        *((line, WORDS) for line in (f"Terminating due to {WORDS}", f'Exception in thread "Cleaner" {WORDS}', WORDS)),
        (f"WARN TaskSetManager: Lost task 0.0 in stage 3.0 (TID 3) (worker-3 executor 1): {WORDS}", None),
    ],
)
def test_the_jvm_says_at_the_beginning_of_a_line_that_it_has_no_memory(
    tmp_path: Path, line: str, found: str | None
) -> None:
    """An executor's message does not count."""
    log = tmp_path / "driver.log"
    assert find_memory_message(log) is None, "it is not there"
    log.write_text(f"batch 7\n{'.' * LAST_BYTES}\n{line}\n\tat java.base/java.nio.HeapByteBuffer.<init>\n")
    assert find_memory_message(log) == found
