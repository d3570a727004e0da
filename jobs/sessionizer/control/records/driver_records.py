"""The reports of a driver: ``heartbeat.json``, ``positions.json``, and its answers to questions about a key.

Of a position, ``offset`` is the next event to read. ``left`` events lie between the oldest one that the broker keeps
and ``offset``: at 0 the broker deletes unread events. ``lost_in_ms`` is the time until then at the present pace.

``lookups/<id>.json`` is a question, ``lookups/answer.<id>.json`` the answer. Only the driver has a Spark that is warm.
It answers within a second or two, from the state of the newest batch. The process that asks removes both files.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from sessionizer.control.history.sample import Straggler
from sessionizer.home.clock import MINUTE
from sessionizer.home.json_record import JsonObject, JsonRecord, Moment
from sessionizer.home.record_file import ControlFile
from sessionizer.home.roots import is_local
from sessionizer.home.stream_home import StreamHome

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


def _figure(**names: str) -> Any:  # noqa: ANN401  a field of any type
    """Declare a figure that is shown elsewhere: its ``metric`` (docs/metrics.md), its name in a row of the ``page``."""
    return field(default=None, metadata=names)


@dataclass(frozen=True, slots=True)
class Heartbeat(JsonRecord):
    """A heartbeat of a driver. Times are epoch ms. Figures are of the last committed batch unless noted."""

    uid: str
    at: Moment = field(metadata={"metric": "heartbeat_timestamp_seconds", "page": "heard_at"})
    started_at: Moment
    phase: Phase
    lineage: str | None = _figure(page="lineage")
    batch_id: int | None = _figure(page="batch_id")
    batch_at: Moment | None = None
    batch_ms: int | None = _figure(metric="batch_duration_seconds", page="batch_ms")
    input_rows: int | None = _figure(page="input_rows")
    rows_per_second: float | None = _figure(metric="rows_per_second")
    watermark_ms: int | None = None
    watermark_lag_ms: int | None = _figure(metric="watermark_lag_seconds")
    open_keys: int | None = _figure(metric="open_sessions", page="open")
    """Open sessions, at most: a group that has not merged since counts each batch's keys."""
    heaviest_group: int | None = _figure(page="group")
    heaviest_group_bytes: int | None = _figure(page="group_bytes")
    """Decoded bytes of that key group's open events, the largest of all groups."""
    state_bytes: int | None = _figure(metric="state_bytes", page="state_bytes")
    late: int | None = _figure(metric="late_events_total")
    """Late events since the driver started."""
    quarantined: int | None = _figure(metric="quarantined_rows_total")
    """Quarantined events since the driver started."""
    sessions_version: int | None = None
    sessions_rows: int | None = _figure(metric="sessions_total")
    """Sessions emitted since the driver started."""
    source_lag: int | None = _figure(metric="source_lag_events", page="source_lag")
    spark_ui: str | None = None
    progress_at: Moment | None = None
    """Time of the driver's last progress: a step of its start, a further task, record or batch, or no batch due."""
    running_batch: int | None = None
    """The batch under way. None between two batches, and for one without an id so far."""
    running_since: Moment | None = None
    running_tasks: int | None = None
    """Tasks of the batch's jobs under way. A batch has several jobs, one after the other."""
    running_tasks_done: int | None = None
    running_rows: int | None = None
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
        """Whether the watermark is where only a drain sets it. Then new events are late."""
        return self.watermark_ms is not None and self.watermark_ms >= YEAR_9999_MS


GAUGES: Final = {each.metadata["metric"]: each.name for each in fields(Heartbeat) if "metric" in each.metadata}
ON_PAGE: Final = {each.metadata["page"]: each.name for each in fields(Heartbeat) if "page" in each.metadata}
HEARTBEAT_FILE: Final = ControlFile("heartbeat.json", Heartbeat, durable=False)
"""The newest beat of any driver. Not fsynced: a beat lost in a power cut belonged to a driver that the cut ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition(JsonRecord):
    """The position in a partition, see the module for its fields. ``newest`` and ``oldest`` are None if unknown."""

    name: str
    offset: int
    newest: int | None = None
    oldest: int | None = None
    lost_in_ms: int | None = None

    @property
    def behind(self) -> int | None:
        """Number of events that are not read yet."""
        return None if self.newest is None else max(0, self.newest - self.offset)

    @property
    def left(self) -> int | None:
        """Number of read events that the broker still keeps."""
        return None if self.oldest is None else self.offset - self.oldest

    def to_json(self) -> JsonObject:
        """Return the fields and the two numbers that follow from them."""
        return {**JsonRecord.to_json(self), "behind": self.behind, "left": self.left}


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsRecord(JsonRecord):
    """The positions of the source at ``at`` (epoch ms), after the batch ``batch_id`` of ``lineage``."""

    at: Moment
    lineage: str | None = None
    batch_id: int | None = None
    partitions: tuple[PartitionPosition, ...] = ()


POSITIONS_FILE: Final = ControlFile("positions.json", PositionsRecord, durable=False)


def positions(ends: str, newest: str) -> tuple[PartitionPosition, ...]:
    """Return the positions by Spark's progress of a batch: its ends, and the newest offsets. Empty unless Kafka."""
    known, found = _offsets(newest), sorted(_offsets(ends).items())
    return tuple(PartitionPosition(name=name, offset=offset, newest=known.get(name)) for name, offset in found)


def count_unread(partitions: tuple[PartitionPosition, ...]) -> Mapping[str, int]:
    """Return the number of unread events by partition."""
    return {each.name: each.behind for each in partitions if each.behind is not None}


def _offsets(text: str) -> dict[str, int]:
    try:
        told: Any = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(told, dict) or not all(isinstance(each, dict) for each in told.values()):
        return {}
    found = {f"{topic}-{number}": offset for topic, each in told.items() for number, offset in each.items()}
    return found if all(type(offset) is int for offset in found.values()) else {}


KEY_LIMIT: Final = 1_024
LOCAL_EVERY_MS: Final = 250
STORE_EVERY_MS: Final = 5_000
"""Between two looks for questions in a store, because each look is a request, which may be paid for."""
KEPT_MS: Final = MINUTE
"""After that a question or an answer is removed, because the process that asked is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(JsonRecord):
    """A question about the open sessions of ``key``, ``at`` then (epoch ms)."""

    key: str
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(JsonRecord):
    """The driver's answer from the state after a batch, as ``sessionizer state show --key``, or why there is none."""

    at: Moment
    key: str
    lineage: str | None = None
    batch_id: int | None = None
    watermark_ms: int | None = None
    key_group: int | None = None
    sessions: tuple[Mapping[str, Any], ...] = field(default=())
    error: str | None = None


QUESTION_FILE: Final = ControlFile("lookups/{}.json", Question, key="lookup", durable=False)
ANSWER_FILE: Final = ControlFile("lookups/answer.{}.json", Answer, key="lookup", durable=False)


def look_every_ms(home: StreamHome) -> int:
    """Return the milliseconds between two looks of the driver for questions."""
    return LOCAL_EVERY_MS if is_local(home.control_base) else STORE_EVERY_MS
