"""Warning for a stream that begins with a backlog out of time order, judged by its first batches: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.lineage.active import Lineage
    from sessionizer.lineage.trial.figures import Figures

MOST_LATE: Final = 0.1
"""Largest accepted share of late rows in the first batches. Above it their order is to blame, not a few stragglers."""
FEWEST_LATE: Final = 10
"""Fewest late rows that allow a judgement."""
TOLD_FOR_MS: Final = 7 * 24 * 3_600_000
"""Time (ms) after the lineage's beginning in which ``status`` shows the warning."""


def late_backlog_line(stream: str, lineage: Lineage, first: Figures, now_ms: int) -> str | None:
    """Say what to do if too many rows of the ``first`` batches came late, None if they did not.

    Nothing of a lineage that began with the state of another: its trial judges it.
    """
    if lineage.parent is not None or now_ms - lineage.created_at > TOLD_FOR_MS:
        return None
    if first.late < FEWEST_LATE or first.late <= MOST_LATE * first.read:
        return None
    return (
        f"{first.late:,} of the first {first.read:,} events ({first.late / first.read:.0%}) came late and are in no "
        "session, because the backlog is not in the order of time. To read it in that order, run "
        f"`sessionizer seed {stream} --history source --backfill --start-over`"
    )
