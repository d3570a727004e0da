"""What is read out of a checkpoint is what the definition says is open after that batch, whatever the log.

The rows are what a savepoint holds, the watermark what it notes.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from upath import UPath

from sessionizer.checkpoint.batch_logs import next_watermark, read_planned_batch
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import Clock
from sessionizer.core.key_group.merging import merge
from sessionizer.core.wire.canonical import KEY_GROUP, log_of
from sessionizer.core.wire.schema import event_schema
from sessionizer.home import names
from sessionizer.spark.state.open_events import KeptState, read_open_events, read_state_timeouts, reading_state
from support.expected.checkpoint_log import CheckpointLog
from support.streams.log_feed import batches_that_bring_something
from support.streams.plain_rows import (
    open_event_of_oracle,
    open_event_of_record,
    records,
    session_of_oracle,
    session_of_record,
    session_of_row,
)
from support.streams.strategies import ALL_MODES, Log, examples_of, logs
from support.streams.streamed_log import Pace, Setting, Streamed, as_specified, stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

PAYLOAD = [pa.field("action", pa.string()), pa.field("amount", pa.int64())]
LOGS_OF_A_MODE = 2
SPREAD = 11


@dataclass(frozen=True, slots=True)
class Case:
    """A log and how it is streamed."""

    log: Log
    setting: Setting


@cache
def cases() -> list[Case]:
    """Draw the logs when the first one runs: every worker of a run imports this file."""
    return [case for mode in ALL_MODES for case in cases_of(mode)]


def cases_of(mode: Clock) -> list[Case]:
    """Not drained, and with several batches that bring something: else there is little to save."""
    wanted = logs([mode], drained=False).filter(lambda log: len(batches_that_bring_something(log)) > 2)
    chance = random.Random(str(mode))
    return [case_of(log, chance) for log in examples_of(wanted, LOGS_OF_A_MODE * SPREAD)[::SPREAD]]


def case_of(log: Log, chance: random.Random) -> Case:
    paces = tuple(chance.choice((Pace.AT_ONCE, Pace.IN_QUIET)) for _ in batches_that_bring_something(log))
    return Case(as_specified(log), Setting(chance.choice((2, 3)), chance.choice((1, 30)), paces))


def param_of_log(number: int) -> Any:
    """All logs but the first."""
    return pytest.param(number, marks=pytest.mark.long if number else ())


@pytest.fixture(scope="module")
def streamed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[Streamed, Path]]:
    done: dict[int, tuple[Streamed, Path]] = {}

    def run(number: int) -> tuple[Streamed, Path]:
        if number not in done:
            home = tmp_path_factory.mktemp(f"log-{number}-")
            done[number] = stream(spark, cases()[number].log, cases()[number].setting, home), home / "checkpoint"
        return done[number]

    return run


def test_the_logs_have_something_open() -> None:
    open_events = [len(sessionize(case.log.batches, case.log.rules).open_events) for case in cases()]
    assert sum(count > 0 for count in open_events) > len(cases()) // 2
    assert {case.log.rules.clock for case in cases()} == set(ALL_MODES)


@pytest.mark.parametrize("number", [param_of_log(number) for number in range(LOGS_OF_A_MODE * len(ALL_MODES))])
def test_the_rows_of_a_batch_are_what_is_open_after_it(
    spark: SparkSession, streamed: Callable[[int], tuple[Streamed, Path]], number: int
) -> None:
    (outcome, checkpoint), case = streamed(number), cases()[number]
    last = len(outcome.batches) - 1
    for batch_id in sorted({last // 2, last}):
        assert_open(spark, outcome, case, state_of(checkpoint, case, batch_id))


def state_of(checkpoint: Path, case: Case, batch_id: int) -> KeptState:
    events = event_schema(PAYLOAD, case.log.rules.clock)
    return KeptState(UPath(checkpoint), batch_id, case.setting.key_groups, events)


def assert_open(spark: SparkSession, outcome: Streamed, case: Case, state: KeptState) -> None:
    batches = outcome.batches[: state.batch_id + 1]
    expected = sessionize(batches, case.log.rules)
    arrivals = {batch.arrived_at_ms for batch in outcome.batches}
    with reading_state(spark):
        rows = read_open_events(spark, state).toArrow()
        timeouts = dict(read_state_timeouts(spark, state))
    of_groups = [rows.filter(pa.compute.equal(rows.column(KEY_GROUP), group)) for group in range(state.key_groups)]
    merged = [merge(log_of(part), expected.watermark_ms, case.log.rules, PAYLOAD) for part in of_groups if len(part)]
    open_events = [row for part in merged for table in part.open_events for row in records(table)]
    assert Counter(map(open_event_of_record, open_events)) == Counter(map(open_event_of_oracle, expected.open_events))
    emitted = Counter(
        session_of_row(row, arrivals)
        for runs in outcome.runs[: state.batch_id + 1]
        for row in runs[-1].of_table.get(names.SESSIONS, [])
    )
    left = Counter(session_of_record(row, arrivals) for part in merged for row in records(part.sessions))
    assert emitted + left == Counter(map(session_of_oracle, expected.closed))
    changed = {client: ms for batch in batches for client, ms in batch.timeout_changes.items()}
    assert timeouts == ({} if case.log.rules.clock is Clock.NONE else changed)


@pytest.mark.parametrize("number", [param_of_log(number) for number in range(LOGS_OF_A_MODE)])
def test_a_commit_tells_the_watermark_of_the_next_batch(
    streamed: Callable[[int], tuple[Streamed, Path]], number: int
) -> None:
    """What a savepoint notes is what Spark gives the batch that follows, and what the definition says it is."""
    outcome, checkpoint = streamed(number)
    committed = [batch.batch_id for batch in CheckpointLog(checkpoint).committed()]
    told = [next_watermark(checkpoint, batch_id) for batch_id in committed]
    assert len(set(told)) > 1
    assert told[:-1] == [read_planned_batch(checkpoint, batch_id).watermark_ms for batch_id in committed[1:]]
    nothing_more = replace(outcome.batches[-1], events=(), floor_ms=None, timeout_changes={})
    assert told[-1] == max(0, sessionize([*outcome.batches, nothing_more], cases()[number].log.rules).watermark_ms)
