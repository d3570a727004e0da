"""The table of all causes: the name of each, whether a retry helps, and what to do.

Each cause has a single remedy, wherever it is shown: ``status``, ``run``, the task log, an alert. The next step is
added by the program that knows it: the command line says ``sessionizer run``, Airflow says unpause.
"""

import errno
from dataclasses import dataclass, replace
from typing import Final

from sessionizer import errors
from sessionizer.causes.cause import PROCESS_CAUSES, START_CAUSES, TERMINAL, TRANSIENT, UNCLEAR, Cause, name_stream
from sessionizer.errors import (
    DiskFull,
    PrivateDoorBroken,
    QueryFailed,
    QueryInterrupted,
    SessionizerError,
    SourceForbidden,
    StoreUnreachable,
    TerminalError,
)

LEASE_LOST: Final = "lease_lost"
"""Cause that ends a driver for good, and not its stream."""
PRIVATE_DOOR: Final = "private_door"
SCHEMA_CHANGE: Final = "schema_change"
UNKNOWN: Final = "unknown"
WORKER_LATE: Final = "python_worker_late"
"""Spark gives a Python worker ten seconds to connect, without a setting for it. A busy machine takes longer."""


@dataclass(frozen=True, slots=True)
class QueryCause(Cause):
    """Cause of a query's end, shown by one of ``signs``.

    ``deep``: the texts count anywhere in the chain of causes, below Spark's own wrapping. ``classes``: Spark's error
    classes about state. Each class of the pinned Spark has a cause. ``is_general``: they say more than the signs.
    ``is_one_line``: the stack says nothing more. ``may_be_memory``: a JVM without memory can look like it in Python.
    """

    signs: tuple[str, ...] = ()
    deep: bool = False
    classes: tuple[str, ...] = ()
    is_general: bool = False
    is_one_line: bool = False
    may_be_memory: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text by which a line names it."""
        return (*self.signs, *(f"[{name}]" for name in self.classes))


def _loading(*names: str) -> tuple[str, ...]:
    return tuple(f"CANNOT_LOAD_STATE_STORE.{name}" for name in names)


# The first that matches wins: exact signs stand before general ones.
QUERY_CAUSES: Final = (
    QueryCause(
        "disk_full", DiskFull.title, TRANSIENT, DiskFull.remedy,
        signs=(
            "No space left on device", "Disk quota exceeded", "DSQuotaExceededException", "NSQuotaExceededException",
            "could only be written to 0 of the",
        ), deep=True,
    ),
    QueryCause(
        PRIVATE_DOOR, PrivateDoorBroken.title, TERMINAL, PrivateDoorBroken.remedy,
        signs=("PrivateDoorBroken: ",), deep=True,
    ),
    QueryCause(
        "memory", "memory ran out", UNCLEAR,
        "give the driver more memory (SPARK_DRIVER_MEMORY, spark.driver.memory), or make batches smaller "
        "(source.options)",
        signs=("java.lang.OutOfMemoryError", "MemoryError", "Cannot allocate memory"), deep=True,
        classes=_loading("HDFS_STORE_PROVIDER_OUT_OF_MEMORY", "ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY"),
    ),
    QueryCause(
        WORKER_LATE, "a Python worker did not come up in time", TRANSIENT,
        "do nothing if it passes, because the machine is busy. If it repeats, reduce the load or add cores",
        signs=(
            "Python worker failed to connect back", "Timed out while waiting for the Python worker to connect back",
            "but an error occurred: timed out",  # of a socket from the JVM to our Python
        ), deep=True, is_one_line=True,
    ),
    QueryCause(
        LEASE_LOST, "another query writes to its checkpoint", TRANSIENT,
        "find that query and end it: a driver that sees this home by another path, or one started by hand",
        signs=("CONCURRENT_STREAM_LOG_UPDATE", "STREAM_CHECKPOINTING_CONCURRENT"),
    ),
    QueryCause(
        "source_data_loss", "the source has lost events", TERMINAL,
        "run `sessionizer switch --accept-loss …`: it shows what is lost, and continues with the earliest events left",
        signs=(
            "KAFKA_DATA_LOSS", "Some data may have been lost", "OffsetOutOfRangeException", "DELTA_FILE_NOT_FOUND",
            # a Delta source's log was cut off before the stream had read it
            "DELTA_MISSING_FILES_UNEXPECTED_VERSION", "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
            "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
            # a table made anew while the stream ran: a driver that starts says SourceReplaced
            "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        ), of_any_lineage=True,
    ),
    QueryCause(
        "source_forbidden", SourceForbidden.title, TERMINAL, SourceForbidden.remedy,
        signs=(
            "TopicAuthorizationException", "ClusterAuthorizationException", "GroupAuthorizationException",
            "SaslAuthenticationException", "SslAuthenticationException",
        ), deep=True,
    ),
    # a broker that is down for a moment says so, too: the next driver asks before it starts
    QueryCause(
        "source_missing", "a topic is not there", UNCLEAR,
        "run `sessionizer spec check --deep …`, which names the topic. Check whether it was deleted",
        signs=("UnknownTopicOrPartitionException",), deep=True,
    ),
    # a broker, a name node, a store: what Java says of it, as Python's own "Connection refused" is of our JVM
    QueryCause(
        "unreachable", "a service that it needs does not answer", TRANSIENT,
        "check that the broker, store, name node or metastore in the message answers",
        signs=(
            "java.net.ConnectException", "java.net.NoRouteToHostException", "java.net.UnknownHostException",
            "java.net.SocketTimeoutException", "java.net.SocketException: Connection reset",
            "java.net.SocketException: Broken pipe", "org.apache.hadoop.net.ConnectTimeoutException",
            "org.apache.kafka.common.errors.TimeoutException", "org.apache.kafka.common.errors.DisconnectException",
            "org.apache.kafka.common.errors.NetworkException", "org.apache.kafka.common.errors.NotLeader",
            "org.apache.kafka.common.errors.LeaderNotAvailable", "org.apache.hadoop.hdfs.server.namenode.SafeMode",
            "org.apache.hadoop.ipc.StandbyException", "org.apache.hadoop.ipc.RetriableException",
            # of an object store: S3A, and Python's clients
            "Unable to execute HTTP request", "EndpointConnectionError", "ConnectTimeoutError", "ClientConnectorError",
            # of a Hive metastore: nothing answers, or another process has the files of an embedded Derby
            "Unable to instantiate org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClient",
            "org.apache.thrift.transport.TTransportException",
        ), deep=True,
    ),
    QueryCause(
        "store_jars_missing", "the jars of an object store are missing", TERMINAL,
        "run `sessionizer jars fetch --with s3` (gs://: gcs, abfss://: azure) with the drivers' Python",
        signs=(
            "org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem not found",
            "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem not found",
        ), deep=True,
    ),
    QueryCause(
        "state_not_at_head", "the state does not match the checkpoint", TERMINAL,
        "restore a savepoint (`sessionizer restore … SAVEPOINT`), because the checkpoint lacks state. "
        "`sessionizer checkpoint inspect CHECKPOINT` names the file. Do not edit it",
        signs=(
            "CANNOT_LOAD_STATE_STORE", "CheckpointInfo length", "STATE_STORE_COMMIT_VALIDATION", "CANNOT_RESTORE",
            "Incomplete log file in the",
        ), is_general=True,
        classes=(
            *_loading(
                "AUTO_SNAPSHOT_REPAIR_FAILED", "CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT", "CANNOT_READ_CHECKPOINT",
                "CANNOT_READ_DELTA_FILE_KEY_SIZE", "CANNOT_READ_DELTA_FILE_NOT_EXISTS",
                "CANNOT_READ_MISSING_SNAPSHOT_FILE", "CANNOT_READ_SNAPSHOT_FILE_KEY_SIZE",
                "CANNOT_READ_SNAPSHOT_FILE_VALUE_SIZE", "CANNOT_READ_STREAMING_STATE_FILE",
                "INVALID_CHECKPOINT_LINEAGE", "SNAPSHOT_PARTITION_ID_NOT_FOUND", "UNEXPECTED_VERSION",
            ),
            "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED", "STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH",
            "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY", "STATE_STORE_COMMIT_VALIDATION_FAILED",
            "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED", "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        ),
    ),
    QueryCause(
        "state_refused", "Spark refuses the state", TERMINAL,
        "undo the change of Spark's version or settings, because the state was written with the earlier ones",
        signs=("STATE_STORE_INVALID_CONFIG_AFTER_RESTART", "STATE_STORE_INVALID_PROVIDER"), is_general=True,
        classes=(
            *_loading("INVALID_CHANGE_LOG_READER_VERSION", "INVALID_CHANGE_LOG_WRITER_VERSION"),
            "STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY_WITH_RESERVED_CHARS",
            "STATE_STORE_CANNOT_USE_COLUMN_FAMILY_WITH_INVALID_NAME", "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED",
            "STATE_STORE_HANDLE_NOT_INITIALIZED", "STATE_STORE_INCORRECT_NUM_ORDERING_COLS_FOR_RANGE_SCAN",
            "STATE_STORE_INCORRECT_NUM_PREFIX_COLS_FOR_PREFIX_SCAN", "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            "STATE_STORE_INVALID_PROVIDER", "STATE_STORE_NULL_TYPE_ORDERING_COLS_NOT_SUPPORTED",
            "STATE_STORE_PROVIDER_DOES_NOT_SUPPORT_FINE_GRAINED_STATE_REPLAY",
            "STATE_STORE_UNKNOWN_INTERNAL_COLUMN_FAMILY", "STATE_STORE_UNSUPPORTED_OPERATION",
            "STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY",
            "STATE_STORE_UNSUPPORTED_OPERATION_ON_MISSING_COLUMN_FAMILY",
            "STATE_STORE_VARIABLE_SIZE_ORDERING_COLS_NOT_SUPPORTED",
        ),
    ),
    QueryCause(
        SCHEMA_CHANGE, "columns have changed", TERMINAL,
        "undo the change of the columns, or start over with it: `sessionizer seed --history source --start-over …`",
        signs=(
            "DELTA_SCHEMA_CHANGED", "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE", "STATE_STORE_VALUE_SCHEMA",
            "STATE_STORE_KEY_SCHEMA", "STREAMING_STATEFUL_OPERATOR_NOT_MATCH", "DELTA_FAILED_TO_MERGE_FIELDS",
            "DELTA_METADATA_MISMATCH", "DELTA_STREAMING_SCHEMA_", "DELTA_STREAMING_METADATA_EVOLUTION",
            "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
            "DELTA_STREAMING_CHECK_COLUMN_MAPPING_NO_SNAPSHOT", "DELTA_UNSUPPORTED_COLUMN_MAPPING_SCHEMA_CHANGE",
        ), is_general=True,
        classes=(
            *_loading("KEY_ROW_FORMAT_VALIDATION_FAILURE", "VALUE_ROW_FORMAT_VALIDATION_FAILURE"),
            "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE", "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
            "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE", "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
            "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
            "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE", "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        ),
    ),
    QueryCause(
        "table_rule", "a rule of a table refuses the rows", TERMINAL,
        "remove the rule that the message names from the table, such as a CHECK constraint or NOT NULL",
        signs=(
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "NOT_NULL_ASSERT_VIOLATION",
            "DELTA_MISSING_NOT_NULL_COLUMN_VALUE", "DELTA_NESTED_NOT_NULL_CONSTRAINT",
            "DELTA_CANNOT_MODIFY_APPEND_ONLY", "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
            "DELTA_CONSTRAINT_DATA_TYPE_MISMATCH", "DELTA_MISSING_PARTITION_COLUMN",
            "DELTA_GENERATED_COLUMNS_", "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT", "DELTA_UNRECOGNIZED_INVARIANT",
            "DELTA_UNSUPPORTED_INVARIANT", "DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "EXCEED_LIMIT_LENGTH",
            "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
        ),
    ),
    QueryCause(
        "table_conflict", "a table was altered at the same moment", TRANSIENT,
        "do nothing if it passes. If it repeats, stop the job that alters the table: the table's history names it",
        signs=(
            "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED", "DELTA_CONCURRENT_",
            "DELTA_MAX_COMMIT_RETRIES_EXCEEDED", "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "MetadataChangedException",
            "ProtocolChangedException", "ConcurrentAppendException", "ConcurrentDelete",
            "ConcurrentTransactionException", "ConcurrentWriteException",
        ),
    ),
    QueryCause(
        "table_too_new", "a table needs what this Delta does not support", TERMINAL,
        "remove the feature that the message names from the table, or install a release with a newer Delta",
        signs=(
            "DELTA_INVALID_PROTOCOL_VERSION", "DELTA_UNSUPPORTED_FEATURE", "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH",
            "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT", "DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION",
            "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED", "DELTA_UNSUPPORTED_WRITES_WITHOUT_COORDINATOR",
            "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_", "DELTA_UNSUPPORTED_COLUMN_MAPPING_WRITE",
            "DELTA_NO_REDIRECT_RULES_VIOLATED", "DELTA_COMMIT_INTERMEDIATE_REDIRECT_STATE",
        ),
    ),
    QueryCause(
        "table_log_damaged", "files of a table's log are gone or damaged", TERMINAL,
        "put back the files in _delta_log of the table that the message names, from a copy",
        signs=(
            "DELTA_TRUNCATED_TRANSACTION_LOG", "DELTA_VERSIONS_NOT_CONTIGUOUS", "DELTA_STATE_RECOVER_ERROR",
            "DELTA_TXN_LOG_FAILED_INTEGRITY", "DELTA_MISSING_PART_FILES", "DELTA_LOG_FILE_NOT_FOUND",
            "DELTA_CHECKPOINT_SNAPSHOT_MISMATCH",
        ),
    ),
    QueryCause(
        "source_rewritten", "the source was rewritten", TERMINAL,
        "choose, because rows of the source were changed or deleted. To read on, write ignoreChanges: true into "
        "source.options and run `sessionizer run --apply …`: the new files are read whole, and repeats are dropped by "
        "event_id. To read the rows as they are now, run `sessionizer seed --history source --start-over …`",
        signs=("DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES"), of_any_lineage=True,
    ),
    QueryCause(
        "bad_option", "an option is refused", TERMINAL, "correct the option in source.options",
        signs=(
            "Invalid value '", "Failed to parse time string", "Failed to parse byte string",
            "org.apache.kafka.common.config.ConfigException", "DELTA_ILLEGAL_OPTION", "DELTA_REGEX_OPT_SYNTAX_ERROR",
            "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET", "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
            "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", "DELTA_STREAMING_INITIAL_SNAPSHOT_TOO_LARGE",
        ),
    ),
    QueryCause(
        "bad_data", "a file cannot be read", TERMINAL,
        "repair the file that the message names. If it is gone, continue without it: "
        "`sessionizer switch --accept-loss …`",
        signs=("FAILED_READ_FILE", "PARQUET_COLUMN", "CANNOT_READ_FILE", "is not a Parquet file"),
    ),
    # not Py4JJavaError, which is Java's answer: this is none
    QueryCause(
        "driver_jvm_died", "the driver's JVM ended", UNCLEAR,
        "look in the end of the driver's log for why the JVM ended (memory, kill)",
        signs=(
            "Py4JNetworkError", "Answer from Java side is empty", "Connection refused",
            "Py4JError: An error occurred while calling",
        ), is_vague=True, may_be_memory=True,
    ),
    QueryCause(
        "state_silent", "the state store failed", UNCLEAR,
        "look in the driver's log for a full disk or an overloaded machine",
        signs=("TimeoutError: timed out", "cannot read from timed out object"), may_be_memory=True,
        classes=(
            *_loading(
                # a copy that was cut short, a lock that is still held, an error that Spark has no class for
                "FAILED_TO_GET_CHANGELOG_WRITER", "UNCATEGORIZED", "UNEXPECTED_FILE_SIZE", "UNRELEASED_THREAD_ERROR",
            ),
            "CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT", "STATE_STORE_INVALID_STAMP",
            "STATE_STORE_INVALID_STATE_MACHINE_TRANSITION", "STATE_STORE_OPERATION_OUT_OF_ORDER",
            "STATE_STORE_UNEXPECTED_EMPTY_FILE_IN_ROCKSDB_ZIP",
        ),
    ),
    QueryCause(
        "executor_lost", "an executor was lost", TRANSIENT,
        "look in the driver's log for a lack of memory or a lost machine",
        signs=(
            "ExecutorLostFailure", "Python worker exited unexpectedly", "FetchFailed", "MetadataFetchFailedException",
            "SparkContext has been shut down", "SparkContext was shut down", "All masters are unresponsive",
        ), is_vague=True, may_be_memory=True,
    ),
    QueryCause(
        UNKNOWN, "the reason is unknown", UNCLEAR, "read the driver's log", is_vague=True, is_general=True,
        may_be_memory=True,
    ),
)  # fmt: skip


SYSTEM: Final = Cause(
    "OSError", "the operating system refuses a call", TRANSIENT, "check the file or resource that the message names"
)
_KINDS: Final = tuple(
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SessionizerError) and "title" in vars(kind)
)
ERROR_CAUSES: Final = tuple(
    Cause(kind.__name__, kind.title, kind.verdict, kind.remedy, kind.for_good, kind.of_any_lineage) for kind in _KINDS
)
"""Causes by the name of the error's class, for a driver that had no query yet."""
CAUSES: Final = {cause.name: cause for cause in (*QUERY_CAUSES, *ERROR_CAUSES, *START_CAUSES, *PROCESS_CAUSES, SYSTEM)}


def cause_of(name: str | None, message: str = "", *, terminal: bool = False) -> Cause:
    """Return the cause for the name in an exit record or of an error's class. ``terminal`` decides if it is unknown."""
    if name == "UnwritablePath" and ("No space left on device" in message or "Disk quota exceeded" in message):
        return CAUSES["disk_full"]
    other = Cause(name or UNKNOWN, "", TERMINAL, TerminalError.remedy) if terminal else CAUSES[UNKNOWN]
    return CAUSES.get(name or "", other)


def cause_of_error(error: SessionizerError | OSError) -> Cause:
    """Return the cause of the error: its name, whether to retry, and what to do.

    A class without a cause of its own has the cause of its base class.
    """
    if isinstance(error, OSError):
        # A refusal by the system concerns the machine: disk space, memory, open files.
        return CAUSES["disk_full"] if error.errno in {errno.ENOSPC, errno.EDQUOT} else SYSTEM
    if isinstance(error, StoreUnreachable):
        return CAUSES[error.cause]
    if isinstance(error, QueryFailed | QueryInterrupted):
        return cause_of(error.cause, error.detail, terminal=isinstance(error, TerminalError))
    kind = next(kind for kind in type(error).__mro__ if kind in _KINDS)
    cause = cause_of(kind.__name__, str(error))
    return replace(cause, remedy=cause.remedy.format(error))


def remedy_for(error: SessionizerError, stream: str | None = None) -> str:
    """Return a line of advice: the cause's remedy, unless the error knows more than its cause.

    ``stream`` is the one of the command, for an error that names none.
    """
    remedy, named = error.advise() or cause_of_error(error).remedy, getattr(error, "stream", None)
    return name_stream(remedy, named if isinstance(named, str) else stream or "STREAM")
