"""Punctuations: control rows of the stream's own, read as a small file source and unioned with the events.

Each is one JSON file, complete before its name appears. Being a source, it is in Spark's offset log: a
replay sees the same control rows in the same batch.

A punctuation is removed when its batch is committed and no longer kept, because the batches that Spark keeps can be
replayed (``spark.proof``). Not left to Spark (``cleanSource``): it tries to remove the last ones again after each
batch, and warns that it cannot.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.checkpoint.file_lists import files_between, files_of_batch, list_files_until
from sessionizer.checkpoint.log_entries import (
    PUNCTUATIONS,
    list_begun_batches,
    list_committed_batches,
    read_planned_batch,
)
from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names, publish_json, remove_data
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.spark.ingest.file_source.lines import POSITION, RAW
from sessionizer.spark.ingest.guard import REASON

COLUMNS = (
    "floor_ms bigint, timeouts array<struct<client: string, timeout_ms: bigint>>, said_at_ms bigint, "
    "unreadable struct<uri: string, cause: string>, seed boolean"
)
# The last instant a timestamp can show; a watermark there closes everything.
_END_OF_TIME_MS = 253_402_300_799_000


def read_punctuations(spark: SparkSession, folder: DataPath) -> DataFrame:
    """Read the punctuations in ``folder`` as they come. ``TakenPunctuations`` removes those of committed batches."""
    reader = spark.readStream.schema(COLUMNS).option("pathGlobFilter", "*.json")
    return reader.option("multiLine", "true").json(uri_of(folder))


def build_text() -> Column:
    """Return the punctuation as the JSON that every group gets, null for one that concerns no group."""
    return F.when(F.col("unreadable").isNull(), F.to_json(F.struct("floor_ms", "timeouts", "said_at_ms", "seed")))


def quarantine_columns() -> dict[str, Column]:
    """Return the quarantine columns of an unreadable file's report: reason, raw and position, null in all others."""
    reason = F.when(F.col("unreadable").isNotNull(), F.lit(QuarantineReason.UNREADABLE_FILE.value))
    return {REASON: reason, RAW: F.col("unreadable.cause"), POSITION: F.col("unreadable.uri")}


def watermark_time(delay_ms: int) -> Column:
    """Return the event time that makes Spark's watermark the punctuation's floor, from the next batch on."""
    floor = F.when(F.col("floor_ms") < _END_OF_TIME_MS - delay_ms, F.col("floor_ms"))
    floor = floor.when(F.col("floor_ms").isNotNull(), F.lit(_END_OF_TIME_MS - delay_ms))
    return F.timestamp_millis(floor + F.lit(delay_ms))


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
    _write(
        folder,
        {"seed": True, "floor_ms": watermark_ms, "timeouts": _changes(timeouts_ms), "said_at_ms": epoch_ms()},
    )


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


@dataclass(slots=True)
class TakenPunctuations:
    """Punctuations in ``folder`` that the query with this ``checkpoint`` has read.

    ``keep``: number of committed batches whose punctuations stay. ``swept``: the last batch dealt with. ``kept``:
    batches with their punctuations that are still there.
    """

    folder: DataPath
    checkpoint: DataPath
    keep: int = KEPT
    swept: int | None = None
    kept: deque[tuple[int, list[str]]] = field(default_factory=deque)

    @classmethod
    def left_behind(cls, folder: DataPath, checkpoint: DataPath, keep: int = KEPT) -> TakenPunctuations:
        """Begin where an earlier driver ended, with the punctuations that it did not remove. Raises OSError."""
        committed = list_committed_batches(checkpoint) & list_begun_batches(checkpoint)
        taken = cls(folder, checkpoint, keep, max(committed, default=None))
        there = {name for name in list_names(folder) if name.endswith(".json")} if committed else set()
        if taken.swept is not None and there:
            oldest = min(committed)
            read = list_files_until(checkpoint, oldest, PUNCTUATIONS)  # all since the lineage began, mostly gone
            taken._remove(uri for uri in read if _name(uri) in there)
            ends = [
                read_planned_batch(checkpoint, each).last_file_offset(PUNCTUATIONS) for each in (oldest, taken.swept)
            ]
            # to which of the batches each belongs is not worth a look at all of them: they are kept a little longer
            taken.kept.append((taken.swept, files_between(checkpoint, PUNCTUATIONS, *ends)))
        return taken

    def sweep(self, committed: int | None) -> None:
        """Note the punctuations of batches up to ``committed``, and remove those of batches that are no longer kept.

        Raises OSError.
        """
        if committed is None or committed == self.swept:
            return
        first = committed if self.swept is None else self.swept + 1
        for batch_id in range(first, committed + 1):
            if taken := files_of_batch(self.checkpoint, batch_id, PUNCTUATIONS):
                self.kept.append((batch_id, taken))
            self.swept = batch_id
        while self.kept and self.kept[0][0] <= committed - self.keep:
            self._remove(self.kept.popleft()[1])

    def _remove(self, uris: Iterable[str]) -> None:
        for uri in uris:
            remove_data(self.folder / _name(uri))


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]
