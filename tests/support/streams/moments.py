"""Moments in the life of a batch at which a driver can be caught, told from the files that it leaves.

A driver that seems to have come to the moment is frozen first and looked at again: only then is it certain. One that
was too quick runs on, to the next batch.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from sessionizer.checkpoint.files import read_last_offset
from sessionizer.checkpoint.log_entries import EVENTS, list_begun_batches, list_committed_batches, read_planned_batch
from sessionizer.home.data_files import list_names
from sessionizer.home.roots import DataPath
from support.places import opened
from support.processes.driver_process import DriverNeverDidThat, DriverProcess
from support.streams.stage import Stage

QUERY_STARTS = "query starts"
TABLES = ("sessions", "late_events", "quarantine")


class Moment(StrEnum):
    FILES_LISTED = "files listed, offsets not written"
    BATCH_RUNS = "offsets written, nothing in the tables"
    BETWEEN_TABLES = "in some of the tables, not in all"
    TABLES_WRITTEN = "in all tables, not committed in the checkpoint"
    COMMITTED = "committed, the next not begun"


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest batch in each of the places that tell, -1 for none; ``listed``: files no batch has yet."""

    listed: bool
    begun: int
    written: tuple[int, ...]
    committed: int

    @property
    def moment(self) -> Moment | None:
        """Where the newest batch is. A batch in one table only may be one with rows for no other: that is nothing."""
        if self.begun == self.committed:
            return Moment.FILES_LISTED if self.listed else Moment.COMMITTED
        reached = [batch == self.begun for batch in self.written]
        if all(reached):
            return Moment.TABLES_WRITTEN
        return Moment.BETWEEN_TABLES if any(reached) else Moment.BATCH_RUNS


def freeze_at(moment: Moment, driver: DriverProcess, stage: Stage) -> int:
    """Freeze the driver at ``moment`` of a batch that was not begun before; returns that batch's id."""
    driver.wait_for_line(QUERY_STARTS)
    # what an earlier driver has left tells nothing about this one
    first_batch = max(1, progress(stage).begun + 1)
    while True:
        driver.wait_for(lambda: _has_come(moment, progress(stage), first_batch), f"{moment}", every_s=0.004)
        driver.freeze()
        caught = progress(stage)
        if driver.ended:
            raise DriverNeverDidThat(f"{moment}: the driver ended first")
        if _has_come(moment, caught, first_batch):
            return caught.begun
        driver.thaw()


def _has_come(moment: Moment, now: Progress, first_batch: int) -> bool:
    return now.begun >= first_batch and now.moment is moment


def progress(stage: Stage) -> Progress:
    checkpoint = stage.checkpoint
    begun = max(list_begun_batches(checkpoint), default=-1)
    written = tuple(_last_written(stage.table(table)) for table in TABLES)
    is_listed = read_last_offset(checkpoint, EVENTS) > (_read_by(checkpoint, begun) if begun >= 0 else -1)
    return Progress(is_listed, begun, written, max(list_committed_batches(checkpoint), default=-1))


@cache
def _read_by(checkpoint: DataPath, batch_id: int) -> int:
    return read_planned_batch(checkpoint, batch_id).last_file_offset(EVENTS)


def _last_written(table: DataPath) -> int:
    log = table / "_delta_log"
    commits = sorted((name for name in list_names(log) if name.endswith(".json") and name[0] != "."), reverse=True)
    return next((batch for name in commits if (batch := _batch_of(log / name)) is not None), -1)


@cache
def _batch_of(commit: DataPath) -> int | None:
    actions = map(json.loads, opened(commit).read_text().splitlines())
    return next((int(action["txn"]["version"]) for action in actions if "txn" in action), None)
