"""Orders of commands on a real stream: in the end each session is in the tables once."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.operation_record import Ending, pending_operation
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.state.lineages.origin import ORIGIN_FILE
from support.histories.real_stream import REFUSALS, RealStream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealStream:
    return RealStream.at(spark, tmp_path, monkeypatch)


def read(stream: RealStream, files: int) -> None:
    stream.feed(files)
    stream.run()


def test_a_restore_to_an_older_savepoint_then_to_a_newer_one(stream: RealStream) -> None:
    read(stream, 1)
    stream.save("monday")
    read(stream, 2)
    stream.save("tuesday")
    before = stream.stage.lineage
    record, lineage = stream.restore("monday"), stream.stage.lineage
    assert lineage
    assert lineage == record.lineage_to != before
    origin = ORIGIN_FILE.of(stream.home, lineage).require()
    assert origin is not None
    assert (origin.verb, origin.parent, origin.savepoint) == ("restore", before, "monday")
    assert (record.outcome, read_desired(stream.home).state) == (Ending.DONE, DesiredState.RUNNING)
    assert record.days
    with stream.killed_at(9):
        stream.restore("tuesday")
    stream.restore("tuesday")
    assert not any(table.rows for table in stream.plan_of("tuesday").decision.tables)
    stream.end()


def test_a_rollback_of_a_restore_leads_to_the_lineage_that_was_active(stream: RealStream) -> None:
    """The savepoint is the one that the upgrade made first. Its lineage is the one before the upgrade."""
    read(stream, 2)
    stream.rescale()
    stream.save("first")
    stream.rescale()
    read(stream, 1)
    left, rows = stream.stage.lineage, stream.session_ids()
    with stream.killed_at(12):
        stream.restore("first")
    stream.restore("first")
    assert stream.session_ids() < rows
    read(stream, 1)
    stream.rollback()
    assert (stream.stage.lineage, stream.session_ids()) == (left, rows)
    stream.end()


@pytest.mark.long
def test_a_restore_into_a_branch_that_was_left(stream: RealStream) -> None:
    read(stream, 1)
    stream.rescale()
    read(stream, 2)
    stream.save("branch")
    stream.rollback()
    stream.run()
    read(stream, 1)
    stream.restore("branch")
    stream.end()


@pytest.mark.long
def test_a_restore_to_a_savepoint_of_before_a_start_over(stream: RealStream) -> None:
    read(stream, 2)
    stream.save("before")
    stream.start_over()
    stream.restore("before")
    stream.end()


@pytest.mark.long
def test_a_restore_to_a_savepoint_of_before_the_sink_moved(stream: RealStream) -> None:
    read(stream, 2)
    stream.save("before")
    stream.move_sink("elsewhere")
    read(stream, 1)
    stream.restore("before")
    stream.end()


@pytest.mark.long
def test_a_lineage_whose_batch_was_cut_short_gets_its_rows_back_and_repeats_the_batch(stream: RealStream) -> None:
    read(stream, 2)
    stream.run()  # the batch without data, which the newest watermark asks for
    stream.save("middle")
    stream.crash(after=1)
    left = stream.stage.lineage
    stream.restore("middle")
    stream.rollback()
    assert stream.stage.lineage == left
    stream.end()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_commands(stream: RealStream, seed: int) -> None:
    chance = random.Random(seed)
    read(stream, 2)
    stream.save()
    for _ in range(10):
        with stream.killed_at(chance.choice([999, 999, chance.randint(1, 14)])), suppress(*REFUSALS):
            one_command(stream, chance)
        finish(stream)
    stream.end()


def one_command(stream: RealStream, chance: random.Random) -> None:
    match chance.randrange(8):
        case 0 | 1:
            read(stream, chance.randint(1, 2))
        case 2:
            stream.save()
        case 3 | 4:
            stream.restore(chance.choice(stream.saved))
        case 5:
            stream.rollback()
        case 6:
            stream.rescale()
        case _:
            stream.crash(chance.randint(0, 2))


def finish(stream: RealStream) -> None:
    """Type a command that was killed again, until it is over."""
    pending = pending_operation(stream.home)
    if pending is None:
        return
    match pending.verb:
        case "restore":
            stream.restore(pending.savepoint)
        case "rollback":
            stream.rollback()
        case _:
            stream.rescale()
    assert pending_operation(stream.home) is None
