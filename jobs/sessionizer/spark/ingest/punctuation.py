"""Punctuations: control rows of the stream's own, read as a small file source and unioned with the events.

Each is one JSON file, complete before its name appears. Being a source, it is in Spark's offset log: a
replay sees the same control rows in the same batch.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import publish_json
from sessionizer.home.roots import uri_of
from sessionizer.spark.ingest.file_source.lines import POSITION, RAW
from sessionizer.spark.ingest.guard import REASON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from sessionizer.home.roots import DataPath

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
