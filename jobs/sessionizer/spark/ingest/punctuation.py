"""Punctuations: control rows of the stream's own, read as a small file source and unioned with the events.

Each is one JSON file, complete before its name appears. Being a source, it is in Spark's offset log: a
replay sees the same control rows in the same batch.

A punctuation is removed when its batch is committed and no longer kept, because the batches that Spark keeps can be
replayed (``spark.proof``). Not left to Spark (``cleanSource``): it tries to remove the last ones again after each
batch, and warns that it cannot.

The driver watches the Delta table of per-client timeouts, and passes its changes on as punctuations. Joining the table
would make a replay depend on what it holds by then.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionizer.checkpoint.files import files_between, files_of_batch, list_files_until
from sessionizer.checkpoint.log_entries import (
    PUNCTUATIONS,
    list_begun_batches,
    list_committed_batches,
    read_planned_batch,
)
from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.definition.rules import NEVER_MS, find_changed_timeouts
from sessionizer.errors import InvalidSpec, StoreUnreachable
from sessionizer.home.clock import MINUTE, epoch_ms, monotonic_ms
from sessionizer.home.data_files import list_names, publish_json, remove_data
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.local_files import first_line
from sessionizer.home.record_file import LineageFile, RecordFile
from sessionizer.home.roots import DataPath, resolve_place, uri_of
from sessionizer.home.stream_home import ANNOUNCED_TIMEOUTS, StreamHome
from sessionizer.spark.ingest.file_source.lines import POSITION, RAW
from sessionizer.spark.ingest.guard import EVENT_TIME, REASON
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.stream_spec.document.names import format_duration
from sessionizer.stream_spec.document.stream import StreamSpec

COLUMNS = (
    "floor_ms bigint, timeouts array<struct<client: string, timeout_ms: bigint>>, said_at_ms bigint, "
    "unreadable struct<uri: string, cause: string>, seed boolean, shows_open boolean"
)
GROUP, PUNCTUATION = "key_group", "punctuation"
_TO_GROUPS: Final = ("floor_ms", "timeouts", "said_at_ms", "seed", "shows_open")
# The last instant a timestamp can show; a watermark there closes everything.
_END_OF_TIME_MS = 253_402_300_799_000


def read_punctuations(spark: SparkSession, folder: DataPath, delay_ms: int, columns: StructType) -> DataFrame:
    """Read the punctuations in ``folder`` as they come, in the ``columns`` of events.

    Each is the JSON that every group gets, or a row to quarantine. Its event time makes Spark's watermark, which lies
    ``delay_ms`` behind, the floor of the punctuation from the next batch on.
    """
    floor = F.when(F.col("floor_ms") < _END_OF_TIME_MS - delay_ms, F.col("floor_ms"))
    floor = floor.when(F.col("floor_ms").isNotNull(), F.lit(_END_OF_TIME_MS - delay_ms))
    file = F.col("unreadable")
    own = {
        PUNCTUATION: F.when(file.isNull(), F.to_json(F.struct(*_TO_GROUPS))),
        REASON: F.when(file.isNotNull(), F.lit(QuarantineReason.UNREADABLE_FILE.value)),
        RAW: F.col("unreadable.cause"),
        POSITION: F.col("unreadable.uri"),
        EVENT_TIME: F.timestamp_millis(floor + F.lit(delay_ms)),
        GROUP: F.lit(0),
    }
    values = ((field, own.get(field.name, F.lit(None))) for field in columns)
    reader = spark.readStream.schema(COLUMNS).option("pathGlobFilter", "*.json").option("multiLine", "true")
    chosen = (value.cast(field.dataType).alias(field.name) for field, value in values)
    return reader.json(uri_of(folder)).select(*chosen)


def move_watermark(folder: DataPath, floor_ms: int) -> None:
    """Ask the query to wait no longer for events at or before ``floor_ms`` (epoch ms)."""
    _write(folder, {"floor_ms": floor_ms})


def wake(folder: DataPath) -> None:
    """Ask for a batch that changes nothing. It tells a resuming driver where the watermark stands."""
    move_watermark(folder, 0)


def change_timeouts(folder: DataPath, timeouts_ms: Mapping[str, int]) -> None:
    """Give clients another gap timeout (ms), from the next event on."""
    _write(folder, {"timeouts": _changes(timeouts_ms), "said_at_ms": epoch_ms()})


def seed(folder: DataPath, watermark_ms: int, timeouts_ms: Mapping[str, int]) -> None:
    """Ask for the batch that begins a lineage with a state: it moves the watermark and keeps timeouts, no more."""
    changes = _changes(timeouts_ms)
    _write(folder, {"seed": True, "floor_ms": watermark_ms, "timeouts": changes, "said_at_ms": epoch_ms()})


def show_open_sessions(folder: DataPath) -> None:
    """Ask for a snapshot of the open sessions after the next batch."""
    _write(folder, {"shows_open": True})


def drain(folder: DataPath) -> None:
    """Close every open session: nothing more will come."""
    move_watermark(folder, NEVER_MS)


def report_unreadable(folder: DataPath, file_id: str, uri: str, cause: str) -> None:
    """Have the file at ``uri`` quarantined. A repeat under the same ``file_id`` is not read again."""
    publish_json(folder / f"unreadable-{file_id}.json", {"unreadable": {"uri": uri, "cause": cause}})


def _changes(timeouts_ms: Mapping[str, int]) -> list[dict[str, object]]:
    bounded = {client: min(timeout, NEVER_MS) for client, timeout in timeouts_ms.items()}
    return [{"client": client, "timeout_ms": timeout} for client, timeout in sorted(bounded.items())]


def _write(folder: DataPath, punctuation: dict[str, object]) -> None:
    publish_json(folder / f"{epoch_ms():015d}-{uuid.uuid4().hex[:8]}.json", punctuation)


KEPT: Final = 100
"""Batches for which punctuations are kept: as many as Spark keeps of its logs."""


RETRY_AFTER_MS: Final = MINUTE


class PunctuationRemoval:
    """Removal of the punctuations in ``folder`` that a query has read. The ``keep`` newest batches keep theirs."""

    def __init__(self, folder: DataPath, checkpoint: DataPath, say: Callable[[str], None], keep: int = KEPT) -> None:
        self._folder, self._checkpoint, self._say, self._keep = folder, checkpoint, say, keep
        self._is_begun, self._next_try = False, 0

    def is_due(self, committed: int | None) -> bool:
        """Whether a batch was ``committed`` since the last removal, or it is the first, or one that failed again."""
        return committed not in (None, self._swept) if self._is_begun else monotonic_ms() >= self._next_try

    def remove(self, committed: int | None) -> None:
        """Remove the punctuations that no batch needs any more, if a removal is due. A failure is only said."""
        if not self.is_due(committed):
            return
        try:
            if not self._is_begun:
                self._begin()  # with what an earlier driver left, or a removal that may have failed anywhere
                self._is_begun = True
            if committed is not None and committed != self._swept:
                self._sweep(committed)
        except (OSError, ValueError, StoreUnreachable) as error:
            self._is_begun, self._next_try = False, monotonic_ms() + RETRY_AFTER_MS
            self._say(f"punctuations that were read cannot be removed: {first_line(error)}")

    def _begin(self) -> None:
        committed = list_committed_batches(self._checkpoint) & list_begun_batches(self._checkpoint)
        self._swept, self._kept = max(committed, default=None), deque[tuple[int, list[str]]]()
        there = {name for name in list_names(self._folder) if name.endswith(".json")} if committed else set()
        if self._swept is not None and there:
            oldest = min(committed)
            read = list_files_until(self._checkpoint, oldest, PUNCTUATIONS)  # all since the lineage began, mostly gone
            self._delete(uri for uri in read if _name(uri) in there)
            planned = (read_planned_batch(self._checkpoint, each) for each in (oldest, self._swept))
            ends = [each.last_file_offset(PUNCTUATIONS) for each in planned]
            # to which of the batches each belongs is not worth a look at all of them: they are kept a little longer
            self._kept.append((self._swept, files_between(self._checkpoint, PUNCTUATIONS, *ends)))

    def _sweep(self, committed: int) -> None:
        for batch_id in range(committed if self._swept is None else self._swept + 1, committed + 1):
            if taken := files_of_batch(self._checkpoint, batch_id, PUNCTUATIONS):
                self._kept.append((batch_id, taken))
            self._swept = batch_id
        while self._kept and self._kept[0][0] <= committed - self._keep:
            self._delete(self._kept.popleft()[1])

    def _delete(self, uris: Iterable[str]) -> None:
        for uri in uris:
            remove_data(self._folder / _name(uri))


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


MOST_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class AnnouncedTimeouts(JsonRecord):
    """The timeouts (ms) by client that a driver has passed on, so that the next one passes on new ones only."""

    timeouts: Mapping[str, int]


ANNOUNCED_FILE: Final = LineageFile(ANNOUNCED_TIMEOUTS, AnnouncedTimeouts)


@dataclass(slots=True)
class TimeoutTable:
    """The table of timeouts at ``location``, and those ``announced`` so far."""

    spark: SparkSession
    location: str | None
    default_ms: int
    inline_ms: dict[str, int]
    announced: RecordFile[AnnouncedTimeouts]
    punctuations: DataPath
    _told: bool = False

    @classmethod
    def of(cls, spark: SparkSession, spec: StreamSpec, home: StreamHome, lineage: str) -> TimeoutTable | None:
        """Choose the table that ``spec`` names. None without one, if no timeout was ever passed on."""
        rules, announced = spec.rules, ANNOUNCED_FILE.of(home, lineage)
        named, folder = rules.client_timeouts_table, home.punctuations(lineage)
        if named is None and ((known := announced.require()) is None or not known.timeouts):
            return None
        location = None if named is None else resolve_place(named, home.platform)
        return cls(spark, location, rules.gap_timeout_ms, dict(rules.client_timeouts), announced, folder)

    def announce_changes(self) -> dict[str, int]:
        """Pass on the changes since the last call (client to ms).

        Raises PySparkException, JavaError, DamagedFile, ControlUnreachable, StoreUnreachable, UnwritablePath, DiskFull.
        """
        told = self.announced.require()
        known = {} if told is None else told.timeouts
        current = {} if self.location is None else read_timeout_table(self.spark, self.location)
        if changes := find_changed_timeouts(known, current, self.inline_ms, self.default_ms):
            # Said first, remembered second: a kill in between says it twice, which changes nothing.
            change_timeouts(self.punctuations, changes)
            self.announced.write(AnnouncedTimeouts({**known, **changes}))
        return changes

    def look(self) -> str | None:
        """Pass on changes. Return a line about them, or, once, that the table cannot be read, or can be read again."""
        try:
            changes = self.announce_changes()
        except (PySparkException, JavaError) as error:
            told, self._told = self._told, True
            unread = f"cannot read the table of timeouts at {self.location}: {java_message(error)}"
            return None if told else f"{unread}. The known timeouts stay in force"
        recovered, self._told = self._told, False
        if changes:  # there may be as many as clients
            shown = ", ".join(f"{client} {format_duration(ms)}" for client, ms in islice(changes.items(), MOST_SHOWN))
            more = f" and {len(changes) - MOST_SHOWN:,} more" if len(changes) > MOST_SHOWN else ""
            return f"timeouts changed from the next event on: {shown}{more}"
        return "the table of timeouts can be read again" if recovered else None

    @property
    def warning(self) -> str | None:
        """Current problem, None if there is none."""
        warning = "the table of client timeouts cannot be read: the timeouts that were read last apply"
        return warning if self._told else None


def check_timeout_table(spark: SparkSession, location: str) -> None:
    """Raise InvalidSpec if there is no such table or it has other columns."""
    try:
        read_timeout_table(spark, location)
    except PySparkException as error:
        allowed = f"a Delta table of client (string), timeout_ms (bigint) ({java_message(error)})"
        raise InvalidSpec("rules.client_timeouts_table", location, allowed) from error


def read_timeout_table(spark: SparkSession, location: str) -> dict[str, int]:
    """Read the timeouts in the table, client to ms, without unusable rows."""
    table = spark.read.format("delta").load(location)
    chosen = table.selectExpr("cast(client as string) client", "cast(timeout_ms as bigint) timeout_ms")
    # beyond NEVER_MS sums with a clock would overflow, and each event be a session of its own
    rows = chosen.where("client is not null and timeout_ms > 0").collect()
    return {row.client: min(row.timeout_ms, NEVER_MS) for row in rows}
