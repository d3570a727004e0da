"""``heartbeat.json``: what the driver last said about itself and its query."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.home.json_file import RecordReading, examine_record, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


YEAR_9999_MS: Final = 253_370_764_800_000


class Phase(StrEnum):
    """What a live driver is doing."""

    STARTING = "starting"
    RUNNING = "running"
    IDLE = "idle"
    STOPPING = "stopping"

    @classmethod
    def _missing_(cls, value: object) -> Phase | None:
        """A driver of an earlier release, which may still run, says ``draining`` when it stops."""
        return cls.STOPPING if value == "draining" else None


@dataclass(frozen=True, slots=True)
class Heartbeat(JsonRecord):
    """One beat. Times are epoch ms; ``batch_*`` and counts are of the last committed batch unless said otherwise."""

    uid: str
    at: int
    started_at: int
    phase: Phase
    lineage: str | None = None
    batch_id: int | None = None
    batch_at: int | None = None
    batch_ms: int | None = None
    input_rows: int | None = None
    rows_per_second: float | None = None
    watermark_ms: int | None = None
    watermark_lag_ms: int | None = None
    open_keys: int | None = None
    """Open sessions, at most: a group that has not merged since counts each batch's keys."""
    heaviest_group: int | None = None
    heaviest_group_bytes: int | None = None
    """What the open events of that key group come to, decoded; of all groups the most."""
    state_rows: int | None = None
    state_bytes: int | None = None
    late: int | None = None
    """Late events since the driver started."""
    quarantined: int | None = None
    """Quarantined events since the driver started."""
    sessions_version: int | None = None
    """Version of the Delta table ``sessions``."""
    sessions_rows: int | None = None
    """Sessions emitted since the driver started."""
    source_lag: int | None = None
    spark_ui: str | None = None
    """Address of the driver's Spark UI, where it has one."""
    progress_at: int | None = None
    """When the driver was last seen to get on: a step of its start, a task, a record, a batch more, or no batch due."""
    running_batch: int | None = None
    """The batch under way; None between two, and of one that has not got its id yet."""
    running_since: int | None = None
    running_tasks: int | None = None
    """Tasks of the batch's jobs under way; a batch has several jobs, one after the other."""
    running_tasks_done: int | None = None
    running_rows: int | None = None
    """Rows that the batch has read from the source so far."""
    warning: str | None = None
    """What the driver goes on in spite of."""

    @property
    def is_drained(self) -> bool:
        """Whether the watermark is where only a drain puts it: every session is closed, and what comes now is late."""
        return self.watermark_ms is not None and self.watermark_ms >= YEAR_9999_MS


def write_heartbeat(home: StreamHome, heartbeat: Heartbeat) -> None:
    """Replace the stream's heartbeat; raises UnwritablePath."""
    # Not fsynced: a beat lost in a power cut told of a driver that the power cut ended.
    write_record(home.control_files.heartbeat, heartbeat, durable=False)


def read_heartbeat(home: StreamHome) -> Heartbeat | None:
    """The last beat of whichever driver wrote last; None if absent or damaged."""
    return examine_heartbeat(home).value


def examine_heartbeat(home: StreamHome) -> RecordReading[Heartbeat]:
    """As ``read_heartbeat``, with the damage."""
    return examine_record(Heartbeat, home.control_files.heartbeat)
