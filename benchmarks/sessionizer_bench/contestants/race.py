"""The input of every contestant, and the parts that contestants share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sessionizer_bench.data.dataset import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WATERMARK_DELAY_S: Final = 30


@dataclass(frozen=True, slots=True)
class Race:
    """The input and settings of a contestant's run.

    The query reads ``files``, ``files_per_batch`` at a time. ``folder`` holds the run's checkpoint and table.
    ``peer_sink`` is the sink of the peers: ``native`` (Delta's own streaming sink) or ``foreach_batch`` (like ours).
    With ``live_s`` 0 the query reads the present files and ends. Otherwise it looks for files every second, for
    ``live_s`` seconds.
    """

    files: Path
    files_per_batch: int
    folder: Path
    emit_every_s: int | None
    key_groups: int
    peer_sink: str = "native"
    watermark_delay_s: int = WATERMARK_DELAY_S
    live_s: int = 0

    @property
    def checkpoint(self) -> Path:
        """Checkpoint location of the query."""
        return self.folder / "checkpoint"

    @property
    def table(self) -> Path:
        """Path of the table of results."""
        return self.folder / "tables" / "sessions"

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Race:
        """Return the race from the JSON values of its ``asdict``."""
        return cls(**{**values, "files": Path(values["files"]), "folder": Path(values["folder"])})

    @property
    def every_ms(self) -> int | None:
        """Time between the starts of two batches (ms), None for a query that reads the present files and ends."""
        return 1_000 if self.live_s else None

    def triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Return the query with the trigger of the race."""
        every = self.every_ms
        return writer.trigger(processingTime=f"{every} milliseconds") if every else writer.trigger(availableNow=True)


def events(spark: SparkSession, race: Race) -> DataFrame:
    """Return the source of the peers."""
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", race.files_per_batch)
    return reader.parquet(str(race.files))


def start_into_delta(stream: DataFrame, race: Race) -> StreamingQuery:
    """Start a peer's query, which writes exactly once into a Delta table."""
    writer = race.triggered(stream.writeStream.outputMode("append"))
    writer = writer.option("checkpointLocation", str(race.checkpoint))
    if race.peer_sink == "native":
        return writer.format("delta").start(str(race.table))

    def write(frame: DataFrame, batch_id: int) -> None:
        appended = frame.write.format("delta").mode("append")
        appended.option("txnAppId", "benchmark").option("txnVersion", batch_id).save(str(race.table))

    return writer.foreachBatch(write).start()
