"""The file ``heartbeat.json``: the driver's newest report on itself and its query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from sessionizer.control.history.straggler import Straggler
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile

YEAR_9999_MS: Final = 253_370_764_800_000


class Phase(StrEnum):
    """The phase of a live driver."""

    STARTING = "starting"
    RUNNING = "running"
    IDLE = "idle"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyKey(JsonRecord):
    """A key whose largest open session has so many ``events``, in the key group ``group``."""

    key: str
    group: int
    events: int


@dataclass(frozen=True, slots=True)
class Heartbeat(JsonRecord):
    """A heartbeat of a driver. Times are epoch ms.

    ``batch_*`` and counts belong to the last committed batch unless a field says otherwise.
    """

    uid: str
    at: Moment
    started_at: Moment
    phase: Phase
    lineage: str | None = None
    batch_id: int | None = None
    batch_at: Moment | None = None
    batch_ms: int | None = None
    input_rows: int | None = None
    rows_per_second: float | None = None
    watermark_ms: int | None = None
    watermark_lag_ms: int | None = None
    open_keys: int | None = None
    """Open sessions, at most: a group that has not merged since counts each batch's keys."""
    heaviest_group: int | None = None
    heaviest_group_bytes: int | None = None
    """Decoded bytes of that key group's open events, the largest of all groups."""
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
    """Address of the driver's Spark UI, if it has one."""
    progress_at: Moment | None = None
    """Time of the driver's last progress: a step of its start, a further task, record or batch, or no batch due."""
    running_batch: int | None = None
    """The batch under way. None between two batches, and for one without an id so far."""
    running_since: Moment | None = None
    running_tasks: int | None = None
    """Tasks of the batch's jobs under way. A batch has several jobs, one after the other."""
    running_tasks_done: int | None = None
    running_rows: int | None = None
    """Rows that the batch has read from the source so far."""
    straggler: Straggler | None = None
    """The key group, key or partition that has held up two batches or more."""
    heaviest_keys: tuple[HeavyKey, ...] = ()
    """The keys with the largest open sessions, as of the last merge of their groups."""
    open_ages: Mapping[str, int] = field(default_factory=dict)
    """Open sessions by age (``core.key_group.group_load.AGES``), as of the last merge of each group."""
    warning: str | None = None
    """The problem in spite of which the driver continues."""

    @property
    def is_drained(self) -> bool:
        """Whether the watermark is at the value that only a drain sets.

        Then every session is closed, and new events are late.
        """
        return self.watermark_ms is not None and self.watermark_ms >= YEAR_9999_MS


HEARTBEAT_FILE: Final = ControlFile("heartbeat.json", Heartbeat, durable=False)
"""The newest beat of any driver. Not fsynced: a beat lost in a power cut belonged to a driver that the cut ended."""
