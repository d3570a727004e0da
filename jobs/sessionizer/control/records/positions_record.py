"""The file ``positions.json``: the driver's positions in the partitions of its Kafka source, and what retention left.

Written by the driver once a minute. JSON for the page (times in epoch ms, offsets in events)::

    {"at": 1790000000000, "lineage": "20261126T010203-3fa9c2", "batch_id": 7, "partitions": [
      {"name": "clicks-3", "offset": 120, "newest": 150, "oldest": 20, "behind": 30, "left": 100, "lost_in_ms": 7200000}
    ]}

``offset`` is the next event to read. ``left`` events lie between the oldest one that the broker keeps and ``offset``.
At 0 the broker deletes unread events. ``lost_in_ms`` is the time until then at the present pace, null if none is known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.json_record import JsonObject


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
    known = _offsets(newest)
    found = _offsets(ends).items()
    return tuple(PartitionPosition(name=name, offset=offset, newest=known.get(name)) for name, offset in sorted(found))


def count_unread(partitions: tuple[PartitionPosition, ...]) -> Mapping[str, int]:
    """Return the number of unread events by partition."""
    return {each.name: each.behind for each in partitions if each.behind is not None}


def _offsets(text: str) -> dict[str, int]:
    """Return the offsets by partition, such as ``clicks-3``. Empty for the offsets of another kind of source."""
    try:
        told: Any = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(told, dict) or not all(isinstance(each, dict) for each in told.values()):
        return {}
    found = {f"{topic}-{number}": offset for topic, each in told.items() for number, offset in each.items()}
    return found if all(type(offset) is int for offset in found.values()) else {}
