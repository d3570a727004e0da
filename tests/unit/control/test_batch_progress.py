"""What counts as progress of the batch under way, and what the heartbeat and people are told of it."""

from dataclasses import replace

import pytest

from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.status.batch_progress import (
    NOTHING_UNDER_WAY,
    BatchObservation,
    BatchProgress,
    ProgressTeller,
    StageObservation,
    running_line,
)
from support.fixtures.reviewed import Reviewed

STAGE = StageObservation(stage_id=4, tasks=200, tasks_done=41, rows_read=2_100_000, records=(2_100_000, 0, 7, 0))
BATCH = BatchObservation(batch_id=3, doing="Processing new data", jobs=(9,), stages=(STAGE,), task_seconds=50)
MORE = {
    "a task": replace(BATCH, stages=(replace(STAGE, tasks_done=42),)),
    "a failed attempt": replace(BATCH, stages=(replace(STAGE, tasks_failed=1),)),
    "records": replace(BATCH, stages=(replace(STAGE, records=(2_100_000, 0, 8, 0)),)),
    "a job": replace(BATCH, jobs=(10,)),
    "another step": replace(BATCH, doing="Getting offsets"),
    "a batch": replace(BATCH, batch_id=4),
    "a report of Spark": replace(BATCH, batches=1),
    "processor time of a local task": replace(BATCH, task_seconds=51),
}


@pytest.mark.parametrize("what", MORE)
def test_whatever_has_come_to_more_is_progress(what: str) -> None:
    progress = BatchProgress().seen(BATCH, 1_000).seen(MORE[what], 9_000)
    assert progress.progress_at == 9_000


def test_a_batch_that_looks_the_same_has_not_got_on() -> None:
    progress = BatchProgress().seen(BATCH, 1_000)
    for now in range(2_000, 99_000, 3_000):
        progress = progress.seen(replace(BATCH), now)
    assert progress.progress_at == 1_000
    assert progress.since == 1_000


def test_a_query_that_waits_for_its_trigger_gets_on_however_long_the_interval() -> None:
    waiting = BatchObservation(waits=True)
    progress = BatchProgress().seen(waiting, 1_000).seen(waiting, 301_000)
    assert progress.fields == {**NOTHING_UNDER_WAY, "progress_at": 301_000}


def test_a_batch_counts_from_its_planning_and_keeps_the_rows_of_earlier_jobs() -> None:
    planned = BatchObservation(doing="Getting offsets")
    written = replace(BATCH, jobs=(11,), stages=(StageObservation(stage_id=6, tasks=2, tasks_done=1, rows_read=12),))
    progress = BatchProgress().seen(BatchObservation(waits=True), 500).seen(planned, 1_000).seen(BATCH, 4_000)
    progress = progress.seen(written, 7_000)
    assert progress.fields == {
        "progress_at": 7_000,
        "running_batch": 3,
        "running_since": 1_000,
        "running_tasks": 2,
        "running_tasks_done": 1,
        "running_rows": 2_100_000,
    }
    assert progress.seen(replace(planned, batches=1), 8_000).since == 8_000


def test_only_work_of_a_task_ends_the_start() -> None:
    idle = replace(STAGE, tasks_done=0, rows_read=0, records=(0, 0, 0, 0))
    assert not replace(BATCH, stages=(idle,), task_seconds=0).shows_work
    assert replace(BATCH, stages=(idle,), task_seconds=1).shows_work
    assert replace(BATCH, task_seconds=0).shows_work


def test_people_are_told_how_far_a_long_batch_has_come(reviewed: Reviewed) -> None:
    beat = Heartbeat("a", 0, 0, Phase.RUNNING, running_batch=3, running_since=20_000)
    beat = replace(beat, running_tasks=200, running_tasks_done=41, running_rows=2_100_000)
    assert running_line(beat, 200_000) == "batch 3: 41 of 200 tasks, 2.1 M rows, for 3 m"
    assert running_line(beat, 29_999) is None
    planned = replace(beat, running_batch=None, running_tasks=None, running_rows=None)
    reviewed(running_line(planned, 80_000))


def test_the_teller_takes_turns_with_finished_batches() -> None:
    teller = ProgressTeller(10_000)
    beat = Heartbeat("a", 0, 0, Phase.RUNNING, running_batch=0, running_since=0)
    said = [teller.line(beat, now) for now in (5_000, 12_000, 15_000, 22_000)]
    assert said == [None, "batch 0: for 12 s", None, "batch 0: for 22 s"]
    done = replace(beat, batch_id=0, running_since=None, running_batch=None)
    assert (teller.line(done, 33_000) or "").startswith("batch 0 ·")
    assert teller.line(done, 44_000) is None
