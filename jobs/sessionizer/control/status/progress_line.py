"""A heartbeat as one line, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.counts import count_text
from sessionizer.home.clock import describe_duration

if TYPE_CHECKING:
    from sessionizer.control.records.driver_records import Heartbeat

HEAVY_GROUP_BYTES: Final = 2**28
"""Bytes from which a key group is reported as heavy. A merge takes about three times as much memory."""
LONG_BATCH_MS: Final = 10_000
"""Milliseconds after which a batch is reported while it runs."""


def progress_line(beat: Heartbeat) -> str:
    """Describe the results of the last batch and the position of the stream."""
    facts = [
        f"batch {beat.batch_id}",
        f"{beat.rows_per_second or 0:,.0f} ev/s",
        _watermark(beat),
        f"source {beat.source_lag:,} behind" if beat.source_lag is not None else "",
        f"open {beat.open_keys or 0:,}",
        f"emitted {beat.sessions_rows or 0:,}",
        f"late {beat.late:,}" if beat.late else "",
        f"quarantined {beat.quarantined:,}" if beat.quarantined else "",
        _heavy(beat),
    ]
    return " · ".join(fact for fact in facts if fact)


def _heavy(beat: Heartbeat) -> str:
    held = beat.heaviest_group_bytes or 0
    return f"key group {beat.heaviest_group} is heavy: {held / 2**30:.1f} GiB open" if held >= HEAVY_GROUP_BYTES else ""


def running_line(beat: Heartbeat, now: int, *, at_least_ms: int = LONG_BATCH_MS) -> str | None:
    """Describe the progress of the batch under way at ``now`` (epoch ms). None if younger than ``at_least_ms``."""
    since = beat.running_since
    if since is None or now - since < at_least_ms:
        return None
    tasks = f"{beat.running_tasks_done or 0:,} of {beat.running_tasks:,} tasks" if beat.running_tasks else ""
    rows = _rows(beat.running_rows) if beat.running_rows else ""
    facts = [fact for fact in (tasks, rows, f"for {describe_duration(now - since)}") if fact]
    batch = "the next batch" if beat.running_batch is None else f"batch {beat.running_batch}"
    return f"{batch}: {', '.join(facts)}"


def _rows(count: int) -> str:
    """Format a number of rows in thousands or millions if it is large."""
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
        if self._told_at is not None and now - self._told_at < self._every_ms:
            return None
        if beat.batch_id is not None and beat.batch_id != self._told_batch:
            line: str | None = progress_line(beat)
            self._told_batch = beat.batch_id
        else:
            line = running_line(beat, now)
        if line is not None:
            self._told_at = now
        return line
