"""The reading of the facts that a stream is judged by, from its records. Light: small files, no Spark."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.control.history.files import KEPT_MS, History, oldest_record, read_history, read_marks
from sessionizer.control.history.mark import MarkKind
from sessionizer.control.records.airflow_records import HEALTH_FILE, PAUSE_FILE, WATCH_FILE, PauseRecord
from sessionizer.control.timeouts import read_configured_timeouts
from sessionizer.fleet.health.facts import WINDOW_MS, HealthFacts
from sessionizer.home.clock import MINUTE
from sessionizer.lineage.active import LINEAGE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.fleet.stream_view import StreamView
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.stream import StreamSpec


PAUSE_KNOWN_MS: Final = 15 * MINUTE
"""Milliseconds for which Airflow's note on a stream's DAGs counts. It is made every five minutes."""


def read_facts(view: StreamView, spec: StreamSpec | None, now: int) -> HealthFacts:
    """Read the facts about the stream of ``view`` at ``now`` (epoch ms). ``spec`` is None if none can be read.

    Raises InvalidSpec for a limit that is no duration.
    """
    home, seen = view.home, view.driver
    history = _recent(home, now) if home else History()
    every_ms = spec.savepoints.every_ms if spec else None
    free, disk = _fullest_disk(home) if home else (None, "")
    damages = [str(error) for error in view.damages]
    noted = _noted_by_airflow(home, now) if home else None
    watched, watch = (HEALTH_FILE.of(home).read(), WATCH_FILE.of(home).read()) if home else (None, None)
    return HealthFacts(
        name=view.name,
        now=now,
        seen=seen,
        unseen=str(view.problem) if seen is None and view.problem else None,
        problem=str(view.problem) if seen is not None and view.problem else None,
        damage=damages[0] if damages else None,
        is_orphan=seen is not None and view.is_orphan,
        supervision=view.supervision,
        unfinished=view.unfinished,
        lineage=LINEAGE_FILE.of(home).read() if home else None,
        canary=view.canary,
        canary_line=view.canary_line,
        is_drained=view.drain is not None and view.drain.is_over,
        draining_since=view.drain.begun_at if view.drain is not None and not view.drain.is_over else None,
        waiting=view.waiting,
        waiting_line=view.waiting_line,
        advice=view.advice,
        samples=history.samples,
        free_bytes=free,
        disk=disk,
        saved_at=_saved_at(home, now) if home and every_ms else None,
        history_since=oldest_record(home) if home and every_ms else None,
        save_every_ms=every_ms,
        watermark_delay_ms=spec.rules.watermark_delay_ms if spec else 0,
        paused=noted.paused if noted else False,
        taken_asset=noted.taken if noted else "",
        looked_at=watched.looked_at if watched else None,
        worked_at=watched.worked_at if watched else None,
        watched_until=watch.until or None if watch else None,
        limits=read_configured_timeouts(),
    )


def _noted_by_airflow(home: StreamHome, now: int) -> PauseRecord | None:
    """Return what Airflow has noted lately of the stream's DAGs. None if it noted nothing."""
    record = PAUSE_FILE.of(home).read()
    return record if record is not None and now - record.at <= PAUSE_KNOWN_MS else None


def looked_at(home: StreamHome) -> int | None:
    """Return the last look of a supervisor (epoch ms). None if none ever looked."""
    health = HEALTH_FILE.of(home).read()
    return health.looked_at if health else None


def _recent(home: StreamHome, now: int) -> History:
    with suppress(OSError):
        return read_history(home, now - WINDOW_MS, now, with_marks=False)
    return History()


def _saved_at(home: StreamHome, now: int) -> int | None:
    with suppress(OSError):
        marks = read_marks(home, now - KEPT_MS, now)
        return max((mark.at for mark in marks if mark.kind is MarkKind.SAVEPOINT), default=None)
    return None


def _fullest_disk(home: StreamHome) -> tuple[int | None, str]:
    """Return the bytes left on the disk with the least room, and a folder on it. Nothing for stores."""
    rooms = [(free, str(folder)) for folder in _folders(home) if (free := _free_bytes(folder)) is not None]
    return min(rooms, default=(None, ""))


def _folders(home: StreamHome) -> Iterable[Path]:
    return (folder for folder in (home.control, home.data) if isinstance(folder, Path) and folder.exists())


def _free_bytes(folder: Path) -> int | None:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize if disk.f_blocks else None
