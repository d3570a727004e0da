"""Spark's view of the batch under way: its jobs and tasks, and the number of records they have taken so far."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.control.status.batch_progress import BatchObservation, StageObservation
from sessionizer.spark.driver.task_cpu_time import jvm_of_this_process, task_seconds
from sessionizer.spark.internals.task_counts import records_of_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def observe_batch(spark: SparkSession, query: StreamingQuery, batch_id: int | None, batches: int) -> BatchObservation:
    """Observe ``query`` as it is now. ``batch_id`` is the batch that Spark has handed to us."""
    status = query.status
    if not status["isTriggerActive"] and query.isActive:
        return BatchObservation(waits=True, batches=batches)
    jobs = _jobs(spark, str(query.runId))
    return BatchObservation(
        batch_id=batch_id,
        doing=str(status["message"]),
        batches=batches,
        jobs=jobs,
        stages=tuple(_stages(spark, jobs)),
        task_seconds=_task_seconds(spark) if jobs else 0,
    )


def _task_seconds(spark: SparkSession) -> int:
    """Return the task seconds of a local Spark, else 0.

    Elsewhere executors report the records that their tasks have taken.
    """
    if not (spark.sparkContext.master or "").startswith("local"):
        return 0
    jvm = jvm_of_this_process()
    return 0 if jvm is None else task_seconds(jvm)


def _jobs(spark: SparkSession, run_id: str) -> tuple[int, ...]:
    """Return the query's jobs under way. Spark groups them under the id of its run. Jobs of others do not count."""
    tracker = spark.sparkContext.statusTracker()
    return tuple(sorted({*tracker.getActiveJobsIds()} & {*tracker.getJobIdsForGroup(run_id)}))


def _stages(spark: SparkSession, jobs: tuple[int, ...]) -> Iterator[StageObservation]:
    """Yield the stages of ``jobs``. A stage whose output exists already has no tasks and is unknown to Spark."""
    tracker = spark.sparkContext.statusTracker()
    for job_id in jobs:
        job = tracker.getJobInfo(job_id)
        for stage_id in sorted(job.stageIds) if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                seen = StageObservation(stage_id, stage.numTasks, stage.numCompletedTasks, stage.numFailedTasks)
                yield _add_records(spark, seen)


def _add_records(spark: SparkSession, stage: StageObservation) -> StageObservation:
    """Add the records that its tasks have taken, running ones included. The public tracker counts finished tasks only.

    Executors report every ten seconds (``spark.executor.heartbeatInterval``), the one of a local Spark does not.
    """
    records = records_of_stage(spark, stage.stage_id)
    return stage if records is None else replace(stage, rows_read=records[0], records=records)
