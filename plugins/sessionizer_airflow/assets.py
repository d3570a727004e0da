"""Sessions that have landed, the assets that announce them, and the trigger that watches for them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat
from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import JsonRecord, add_stamp, unknown_format
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.internals import find_asset_uri


@dataclass(frozen=True, kw_only=True, slots=True)
class Announcement(JsonRecord):
    """Announcement ``at`` (epoch ms) that driver ``uid`` had emitted ``rows`` sessions in all, at Delta ``version``."""

    uid: str
    version: int
    rows: int
    at: int = 0

    def due_in(self, interval: int, now_ms: int) -> int:
        """Return the ms until the next announcement may follow, ``interval`` ms after this one."""
        return min(interval, max(0, self.at + interval - now_ms))


def find_landing(heartbeat: Heartbeat | None, last: Announcement | None) -> tuple[dict[str, Any], Announcement] | None:
    """Return the payload of the event and the announcement to remember. None without rows, as of an optimization."""
    if heartbeat is None or heartbeat.sessions_version is None:
        return None
    now = Announcement(uid=heartbeat.uid, version=heartbeat.sessions_version, rows=heartbeat.sessions_rows or 0)
    # A driver counts from 0 again when it starts.
    rows = now.rows - last.rows if last is not None and last.uid == now.uid else now.rows
    if rows <= 0:
        return None
    return {"delta_version": now.version, "rows": rows, "watermark_ms": heartbeat.watermark_ms}, now


POLL_SECONDS = 2.0
PLACES = {"sessions": "tables/sessions", "report_due": "report_due"}
"""Kinds of assets that each stream has, with the end of their URI."""
ANNOUNCED = "announced"


def watched_sessions_asset(stream: str, platform_home: Path, interval: int, kind: str = "sessions") -> Asset:
    """Return the asset of the table ``sessions``, or of another ``kind``: an event at most every ``interval`` ms."""
    watch, name = SessionsLanded(stream=stream, platform_home=str(platform_home), interval=interval), f"{stream}.{kind}"
    return Asset(
        name=name,
        uri=_uri_of(stream, kind),
        group="sessionizer",
        watchers=[AssetWatcher(name=f"{name}_landed", trigger=watch)],
    )


def _uri_of(stream: str, kind: str) -> str:
    return f"sessionizer://streams/{stream}/{PLACES[kind]}"


def report_due_asset(stream: str, platform_home: Path, interval: int) -> Asset:
    """Return the asset that tells that the report is out of date, every ``interval`` ms, however much lands."""
    return watched_sessions_asset(stream, platform_home, interval, "report_due")


def find_taken_asset(stream: str, find_uri: Callable[[str], str | None] = find_asset_uri) -> tuple[str, str] | None:
    """Return name and URI of an asset of ``stream`` whose name another DAG had first, as ``find_uri`` says of names."""
    for kind in PLACES:
        uri = find_uri(f"{stream}.{kind}")
        if uri not in {None, _uri_of(stream, kind)}:
            return f"{stream}.{kind}", str(uri)
    return None


class SessionsLanded(BaseEventTrigger):
    """Trigger that fires when the driver's heartbeat has a newer Delta version of ``sessions`` with more rows.

    Payload: ``{stream, delta_version, rows, watermark_ms}``. ``rows`` counts the rows since the last event. The asset's
    state store keeps the last announcement, so that a new triggerer continues from it.
    """

    def __init__(self, *, stream: str, platform_home: str, interval: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stream = stream
        self.platform_home = platform_home
        self.interval = interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the import path and the arguments by which Airflow stores and remakes the trigger."""
        kept = ("stream", "platform_home", "interval")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in kept}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire at each news of the table, as long as the asset is watched."""
        last = await self._last_announced()
        while True:
            found = find_landing(await self._heartbeat(), last)
            if found is None:
                await asyncio.sleep(POLL_SECONDS)
                continue
            if last is not None:
                # Also after a restart of the triggerer. Sessions that land meanwhile are in the same event.
                await asyncio.sleep(last.due_in(self.interval, epoch_ms()) / 1000)
                found = find_landing(await self._heartbeat(), last) or found
            payload, announcement = found
            yield TriggerEvent({"stream": self.stream, **payload})  # type: ignore[no-untyped-call]
            last = replace(announcement, at=epoch_ms())
            if self.asset_state_store:
                await self.asset_state_store.aset(ANNOUNCED, add_stamp(last.to_json()))

    async def _heartbeat(self) -> Heartbeat | None:
        return await asyncio.to_thread(HEARTBEAT_FILE.of(StreamHome.of(Path(self.platform_home), self.stream)).read)

    async def _last_announced(self) -> Announcement | None:
        kept = await self.asset_state_store.aget(ANNOUNCED) if self.asset_state_store else None
        if not isinstance(kept, dict) or unknown_format(kept) is not None:
            return None  # at worst the newest sessions are announced again
        return Announcement.from_json(kept)
