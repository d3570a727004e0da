"""Detection of sessions that have landed since the last announcement: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sessionizer.control.records.driver_records import Heartbeat
from sessionizer.home.json_record import JsonRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Announcement(JsonRecord):
    """Announcement that driver ``uid`` had emitted ``rows`` sessions in all. ``version`` is the table's Delta version.

    It was made at ``at`` (epoch ms).
    """

    uid: str
    version: int
    rows: int
    at: int = 0

    def due_in(self, interval: int, now_ms: int) -> int:
        """Return the ms until the next announcement may follow, ``interval`` ms after this one."""
        return min(interval, max(0, self.at + interval - now_ms))


@dataclass(frozen=True, kw_only=True)
class Landing:
    """News of the table: the ``payload`` of the event, and the ``announcement`` to remember."""

    payload: dict[str, Any]
    announcement: Announcement


def find_landing(heartbeat: Heartbeat | None, last: Announcement | None) -> Landing | None:
    """Return the news of the table, or None if no rows were added.

    A newer version without rows (an optimization, an empty batch) is no news.
    """
    if heartbeat is None or heartbeat.sessions_version is None:
        return None
    now = Announcement(uid=heartbeat.uid, version=heartbeat.sessions_version, rows=heartbeat.sessions_rows or 0)
    rows = new_rows(now, last)
    if rows <= 0:
        return None
    payload = {"delta_version": now.version, "rows": rows, "watermark_ms": heartbeat.watermark_ms}
    return Landing(payload=payload, announcement=now)


def new_rows(now: Announcement, last: Announcement | None) -> int:
    """Count the sessions emitted since the last announcement. A driver counts from 0 again when it starts."""
    same_driver = last is not None and last.uid == now.uid
    return now.rows - last.rows if last is not None and same_driver else now.rows
