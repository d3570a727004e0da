"""The progress of the batch under way, from observations at two moments, and lines about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sessionizer.control.records.driver_records import Heartbeat
from sessionizer.counts import count_text
from sessionizer.home.clock import describe_duration
from sessionizer.home.json_record import JsonObject


@dataclass(frozen=True, slots=True)
class StageObservation:
    """A stage under way. ``records`` are all record counts that Spark keeps for it, ``rows_read`` is its input."""

    stage_id: int
    tasks: int
    tasks_done: int
    tasks_failed: int = 0
    rows_read: int = 0
    records: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchObservation:
    """The state of a query at a moment. ``waits``: no batch is under way and none is due.

    ``batch_id`` is None while a batch is planned. ``doing`` is Spark's own status message. ``batches``: those and idle
    triggers that it has reported. ``task_seconds``: processor time of its tasks, if they run in the driver's own JVM.
    """

    waits: bool = False
    batch_id: int | None = None
    doing: str = ""
    batches: int = 0
    jobs: tuple[int, ...] = ()
    stages: tuple[StageObservation, ...] = ()
    task_seconds: int = 0

    @property
    def shows_work(self) -> bool:
        """Whether a task of the batch under way has done something."""
        done = any(stage.tasks_done or any(stage.records) for stage in self.stages)
        return done or bool(self.stages and self.task_seconds)


NOTHING_UNDER_WAY: Final[JsonObject] = dict.fromkeys(
    ("running_batch", "running_since", "running_tasks", "running_tasks_done", "running_rows")
)


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The heartbeat's values about the batch under way, as of ``observed``. Times are epoch ms."""

    observed: BatchObservation | None = None
    progress_at: int | None = None
    since: int | None = None
    rows: int | None = None

    def seen(self, observed: BatchObservation, now: int) -> BatchProgress:
        """Return the progress after an observation at ``now``. Any change is progress, and so is a query that waits."""
        if observed.waits:
            return BatchProgress(observed, progress_at=now)
        before = self.observed
        # a batch gets its id when it has been planned, and the next one has another or none
        continues = before is not None and not before.waits and before.batch_id in {None, observed.batch_id}
        read = sum(stage.rows_read for stage in observed.stages)
        known = (self.rows or 0) if continues else 0
        return replace(
            self,
            observed=observed,
            progress_at=self.progress_at if observed == self.observed else now,
            since=self.since if continues else now,
            rows=max(read, known) or None,
        )

    @property
    def fields(self) -> JsonObject:
        """The heartbeat's fields about it."""
        told = {**NOTHING_UNDER_WAY, "progress_at": self.progress_at}
        if self.observed is None or self.observed.waits:
            return told
        told |= {"running_batch": self.observed.batch_id, "running_since": self.since, "running_rows": self.rows}
        if self.observed.stages:
            told["running_tasks"] = sum(stage.tasks for stage in self.observed.stages)
            told["running_tasks_done"] = sum(stage.tasks_done for stage in self.observed.stages)
        return told


HEAVY_GROUP_BYTES: Final = 2**28
"""Bytes from which a key group is reported as heavy. A merge takes about three times as much memory."""
LONG_BATCH_MS: Final = 10_000


def progress_line(beat: Heartbeat) -> str:
    """Describe the results of the last batch and the position of the stream."""
    held = beat.heaviest_group_bytes or 0
    heavy = f"key group {beat.heaviest_group} is heavy: {held / 2**30:.1f} GiB open"
    facts = [
        f"batch {beat.batch_id}",
        f"{beat.rows_per_second or 0:,.0f} ev/s",
        _watermark(beat),
        f"source {beat.source_lag:,} behind" if beat.source_lag is not None else "",
        f"open {beat.open_keys or 0:,}",
        f"emitted {beat.sessions_rows or 0:,}",
        f"late {beat.late:,}" if beat.late else "",
        f"quarantined {beat.quarantined:,}" if beat.quarantined else "",
        heavy if held >= HEAVY_GROUP_BYTES else "",
    ]
    return " · ".join(filter(None, facts))


def running_line(beat: Heartbeat, now: int, *, at_least_ms: int = LONG_BATCH_MS) -> str | None:
    """Describe the progress of the batch under way at ``now`` (epoch ms). None if younger than ``at_least_ms``."""
    since = beat.running_since
    if since is None or now - since < at_least_ms:
        return None
    tasks = f"{beat.running_tasks_done or 0:,} of {beat.running_tasks:,} tasks" if beat.running_tasks else ""
    rows = _rows(beat.running_rows) if beat.running_rows else ""
    facts = filter(None, (tasks, rows, f"for {describe_duration(now - since)}"))
    batch = "the next batch" if beat.running_batch is None else f"batch {beat.running_batch}"
    return f"{batch}: {', '.join(facts)}"


def _rows(count: int) -> str:
    if count < 10**3:
        return count_text(count, "row")
    size, unit = (10**6, "M") if count >= 10**6 else (10**3, "k")
    return f"{count / size:,.1f} {unit} rows"


def _watermark(beat: Heartbeat) -> str:
    if beat.is_drained:
        return "every session closed"
    return "" if beat.watermark_lag_ms is None else f"watermark {describe_duration(beat.watermark_lag_ms)} behind"


class ProgressTeller:
    """A source of lines about a new batch or a long one, at most one line in ``every_ms``."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._told_batch: int | None = None
        self._told_at: int | None = None

    def line(self, beat: Heartbeat, now: int) -> str | None:
        """Return the line that is due at ``now`` (epoch ms), or None."""
        if self._told_at is not None and 0 <= now - self._told_at < self._every_ms:
            return None
        is_new = beat.batch_id is not None and beat.batch_id != self._told_batch
        line = progress_line(beat) if is_new else running_line(beat, now)
        self._told_batch = beat.batch_id if is_new else self._told_batch
        self._told_at = self._told_at if line is None else now
        return line
