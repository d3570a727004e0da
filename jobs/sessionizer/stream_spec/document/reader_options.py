"""The options of Spark's readers, and what the stream does with each: it takes it, refuses it, or needs none.

Spark takes any name, and does nothing with one that the reader at hand does not know. A test asks for a row for each
option that Spark, Delta and Kafka's source know. ``docs/stream-spec.md`` shows the rows.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from sessionizer.redaction import SECRET_WORDS

_SECRET_WORD: Final = re.compile("|".join((*SECRET_WORDS, "private")), re.IGNORECASE)
SECRET: Final = re.compile(f"{_SECRET_WORD.pattern}|key(?![a-z])", re.IGNORECASE)
"""Options that are likely secrets, such as ``accessKey`` and ``ssl.key.location``, but not a keystore."""
_CLASS_WORDS: Final = (
    "class", "classes", "impl", "reporters", "strategy", "serializer", "deserializer", "serializations", "codecs",
    "factory", "plugins?", "handlers?", "callbacks?", r"(?<!config\.)(?<!security\.)providers?", r"group\.mapping",
    "interceptors?", "partitioner", "pathfilter",
)  # fmt: skip
CLASS: Final = re.compile(rf"\.({'|'.join(_CLASS_WORDS)})(?:\.|$)", re.IGNORECASE)
"""Options with the name of a class that Kafka or Hadoop loads and calls."""
PROGRAM: Final = re.compile(r"\b(?:cmd|command|script|exec|executable|program)\b", re.IGNORECASE)
"""Options with a program that the driver starts, such as ``sasl.kerberos.kinit.cmd``."""
PROVIDER: Final = re.compile(r"\b(config|security)\.providers\b", re.IGNORECASE)
"""Options that have Kafka put variables and files of the driver into other options."""


def holds_secret(path: Sequence[str]) -> bool:
    """Tell whether the value at ``path`` (YAML keys) must be kept out of messages and logs.

    Outside of options the word "key" is harmless: ``mapping.key`` names the user's column.
    """
    among_options = any(step.startswith("options") for step in path[:-1])
    return bool(path) and (SECRET if among_options else _SECRET_WORD).search(path[-1]) is not None


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Options with the same effect, for the same ``readers``: an encoding of files, ``delta`` or ``kafka``.

    ``names``: as Spark writes them. ``kafka.*`` stands for each name that begins so. ``effect``: what they do.
    ``advice``: what to do instead, for options that are refused. ``never``: a value that is refused.
    ``plans_only``: whether they only decide what the next batch takes, and not what a row of a begun batch is.
    ``of_folder``: whether the reader of a folder has them, and not the parser of its files.
    """

    readers: str
    names: str
    effect: str
    advice: str | None = None
    never: str = ""
    plans_only: bool = False
    of_folder: bool = False

    def has(self, option: str) -> bool:
        """Whether ``option`` (in any case) is one of these."""
        return any(fnmatchcase(option.lower(), name) for name in self.names.lower().split())


_FILES: Final = "text json csv parquet"
_BY_ITSELF: Final = "Remove it, because the stream sets it itself"
_NO_END: Final = "Remove it, because a stream has no end"

READER_OPTIONS: Final = (
    # how much a batch brings, and how it is fetched
    ReaderOptions(
        _FILES, "maxFilesPerTrigger maxBytesPerTrigger", "Limit of a batch. A source of files takes one of the two.",
        plans_only=True, of_folder=True,
    ),
    ReaderOptions("delta", "maxFilesPerTrigger maxBytesPerTrigger", "Limit of a batch.", plans_only=True),
    ReaderOptions("kafka", "maxOffsetsPerTrigger", "Limit of a batch.", plans_only=True),
    ReaderOptions("kafka", "minPartitions maxRecordsPerPartition", "More tasks for a batch.", plans_only=True),
    ReaderOptions(
        _FILES, "maxCachedFiles discardCachedInputRatio", "How long a listing of the folder is used.",
        plans_only=True, of_folder=True,
    ),
    ReaderOptions(
        "kafka", "fetchOffset.numRetries fetchOffset.retryIntervalMs kafkaConsumer.pollTimeoutMs groupIdPrefix",
        "How the brokers are asked.", plans_only=True,
    ),
    # which rows are read, and in what order
    ReaderOptions(_FILES, "pathGlobFilter", "Files with another name are not read.", of_folder=True),
    ReaderOptions(_FILES, "recursiveFileLookup", "Files in subfolders are read, too.", of_folder=True),
    ReaderOptions(
        _FILES, "maxFileAge", "Files that are older than this, counted from the newest one, are not read. 100 years if "
        "it is not set.", plans_only=True, of_folder=True,
    ),
    ReaderOptions(
        _FILES, "cleanSource sourceArchiveDir", "Files leave the folder when their batch is committed. A later restore "
        "cannot read them again.", plans_only=True, of_folder=True,
    ),
    ReaderOptions(
        "delta", "startingVersion startingTimestamp", "A new checkpoint begins there. Earlier rows are not read, also "
        "after `switch --start-at earliest`.", plans_only=True,
    ),
    ReaderOptions(
        "delta", "ignoreChanges", "Reads on after a commit that rewrites rows, as MERGE does. Its new files are read "
        "whole. Repeats are dropped by `event_id` while their session is open, and are late rows afterwards.",
    ),
    ReaderOptions("delta", "ignoreDeletes", "Reads on after a commit that only removes files. Their events stay."),
    ReaderOptions(
        "delta", "skipChangeCommits", "Skips each commit that rewrites or deletes rows. **New rows in such a commit "
        "are lost**, as a MERGE has them.",
    ),
    ReaderOptions("delta", "excludeRegex", "Data files whose path fits are not read."),
    ReaderOptions(
        "kafka", "startingTimestamp startingOffsetsByTimestamp startingOffsetsByTimestampStrategy",
        "A new checkpoint begins there. Earlier records are not read, also after `switch --start-at earliest`.",
        plans_only=True,
    ),
    ReaderOptions("kafka", "kafka.isolation.level", "`read_uncommitted`: records of aborted transactions are read."),
    # how a value is read
    ReaderOptions("text json csv", "lineSep", "End of a line."),
    ReaderOptions(
        "json csv", "dateFormat timestampFormat timestampNTZFormat timeFormat timeZone locale "
        "enableDateTimeParsingFallback", "How dates and times are written.",
    ),
    ReaderOptions(
        "json", "allowComments allowSingleQuotes allowUnquotedFieldNames allowUnquotedControlChars "
        "allowNumericLeadingZeros allowNonNumericNumbers allowBackslashEscapingAnyCharacter",
        "Text that is not quite JSON is accepted.",
    ),
    ReaderOptions(
        "csv", "sep delimiter quote escape charToEscapeQuoteEscaping comment multiLine encoding charset maxColumns "
        "header enforceSchema ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace", "How the lines are written.",
    ),
    ReaderOptions("csv", "unescapedQuoteHandling", "What a stray quote means. Not `RAISE_ERROR`.", never="raise_error"),
    ReaderOptions(
        "csv", "nullValue emptyValue nanValue positiveInf negativeInf", "Text that stands for a missing value or a "
        "number.",
    ),
    ReaderOptions("parquet", "datetimeRebaseMode int96RebaseMode", "Calendar of files that Spark 2 wrote."),
    # refused
    ReaderOptions(
        _FILES, "latestFirst", "Newer files would come first, and the events of older ones would be late.",
        "Remove it, because the events of older files would be late", of_folder=True,
    ),
    ReaderOptions(
        _FILES, "fileNameOnly", "A file would be skipped if another folder has one of its name.",
        "Remove it, because a file would be skipped if another folder has one of its name", of_folder=True,
    ),
    ReaderOptions(
        _FILES, "modifiedAfter modifiedBefore", "Spark has them for batches only.",
        "Remove it, because Spark refuses it in a stream. For a limit of age set maxFileAge", of_folder=True,
    ),
    ReaderOptions(
        _FILES, "ignoreCorruptFiles ignoreMissingFiles ignoreInvalidPartitionPaths",
        "Events would be lost without a word.", "Remove it, because events would be lost without a word",
        of_folder=True,
    ),
    ReaderOptions(
        "delta", "readChangeFeed readChangeData", "Deleted and earlier rows would be events.",
        "Remove it, because deleted and earlier rows would become events. Set ignoreChanges to read on after a change",
    ),
    ReaderOptions(
        "delta", "ignoreFileDeletion", "An earlier name of `ignoreChanges`.", "Write ignoreChanges, its present name"
    ),
    ReaderOptions(
        "delta", "versionAsOf timestampAsOf endingVersion endingTimestamp", "A stream has no end.", _NO_END
    ),
    ReaderOptions("kafka", "endingOffsets endingTimestamp endingOffsetsByTimestamp", "A stream has no end.", _NO_END),
    ReaderOptions(
        "kafka", "minOffsetsPerTrigger maxTriggerDelay", "A stream that ends by itself would leave records unread.",
        "Remove it, because a stream that ends by itself would leave records unread. Set trigger_interval instead",
    ),
    ReaderOptions("csv", "maxCharsPerColumn", "Use `rules.max_event_bytes`.", "Set rules.max_event_bytes instead"),
    ReaderOptions(_FILES, "path mode columnNameOfCorruptRecord", "The stream sets them.", _BY_ITSELF, of_folder=True),
    ReaderOptions(
        "delta", "schemaTrackingLocation schemaLocation streamingSourceTrackingId allowSourceColumnDrop "
        "allowSourceColumnRename allowSourceColumnTypeChange", "The stream follows the table's columns by itself.",
        "Remove it, because the stream follows the table's columns by itself",
    ),
    ReaderOptions("delta", "path failOnDataLoss", "The stream sets them.", _BY_ITSELF),
    ReaderOptions(
        "kafka", "subscribe subscribePattern assign startingOffsets includeHeaders failOnDataLoss "
        "kafka.bootstrap.servers kafka.auto.offset.reset kafka.enable.auto.commit kafka.key.deserializer "
        "kafka.value.deserializer kafka.interceptor.classes", "The stream or Spark sets them.", _BY_ITSELF,
    ),
    # whatever the names above are not
    ReaderOptions("kafka", "kafka.*", "Settings of Kafka's consumers.", plans_only=True),
    ReaderOptions("delta", "fs.* dfs.*", "Settings of Hadoop's file system.", plans_only=True),
)  # fmt: skip
"""The options that have an effect, or would have one. The first row that fits counts."""


def find_options(option: str, reader: str) -> ReaderOptions | None:
    """Return the row of an ``option`` of a ``reader``. None if it has no effect there."""
    return next((row for row in READER_OPTIONS if row.has(option) and reader in row.readers.split()), None)


def only_plans(option: str) -> bool:
    """Whether ``option`` of a source decides what the next batch takes, and nothing about a batch that was begun."""
    return next((row.plans_only for row in READER_OPTIONS if row.has(option)), False)


def unfit_option(option: str, value: str, reader: str) -> str | None:
    """Return the advice about an ``option`` that a source of this ``reader`` does not take, or None."""
    if (row := find_options(option, reader)) is not None:
        never = "another value, because with this one a single bad line ends the stream"
        return never if value.lower() == row.never else row.advice
    rows = [row for row in READER_OPTIONS if row.advice is None and reader in row.readers.split()]
    taken = {name.lower(): name for row in rows for name in row.names.split()}
    close = difflib.get_close_matches(option.lower(), taken, n=1)
    meant = f". Did you mean {taken[close[0]]!r}?" if close else ""
    read = {"delta": "a Delta table", "kafka": "records of Kafka"}.get(reader, f"{reader} files")
    return f"Omit it, because it has no effect on {read} (docs/stream-spec.md){meant}"
