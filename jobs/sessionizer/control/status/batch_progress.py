"""The progress of the batch under way: pure, from observations at two moments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
    """The state of a query at a moment.

    ``waits``: no batch is under way and none is due. ``batch_id`` is None while a batch is planned. ``doing`` is
    Spark's own status message. ``batches`` is the number of batches or idle triggers that it has reported.
    ``task_seconds`` is the processor time of its tasks, if they run in the driver's own JVM.
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
"""The heartbeat's fields about the batch under way when there is none."""


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
        continues = self.observed is not None and not self.observed.waits and _same_batch(self.observed, observed)
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


def _same_batch(before: BatchObservation, now: BatchObservation) -> bool:
    """Whether both are of one batch.

    A batch gets its id when it has been planned, and the next one has another or none.
    """
    return before.batch_id in {None, now.batch_id}
