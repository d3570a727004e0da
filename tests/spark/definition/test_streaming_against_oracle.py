"""Real streaming queries against the definition: many logs, each through a checkpoint of its own.

The oracle is given the micro-batches that Spark really ran, as the checkpoint tells them. On arrival the gaps of a log
are stretched, so that they are neither nothing nor for ever beside the time a micro-batch takes.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from upath import UPath

from sessionizer.checkpoint.log_entries import next_watermark, read_planned_batch
from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import NEVER_MS, Clock, SessionRules
from sessionizer.core.key_group.merging import merge
from sessionizer.core.wire.canonical import KEY_GROUP, log_of
from sessionizer.core.wire.schema import event_schema
from sessionizer.home import names
from sessionizer.home.roots import data_root, uri_of
from sessionizer.launch.driver_environment import PLAIN_SPARK
from sessionizer.spark.internals.checkpoint_files import local_checkpoint_settings
from sessionizer.spark.state.open_events import KeptState, read_open_events, read_state_timeouts, reading_state
from support.expected.worked_examples import FAR_FROM_NOW_MS, Example, Told, owed_by_batch, read_examples
from support.places import REPOSITORY
from support.streams.drawn_logs import commit, draw
from support.streams.plain_rows import (
    Record,
    conflict_of_row,
    event_of_oracle,
    event_of_record,
    late_event_of_oracle,
    late_event_of_row,
    open_event_of_oracle,
    open_event_of_record,
    records,
    session_of_oracle,
    session_of_record,
    session_of_row,
)
from support.streams.strategies import Log, drain_at, examples_of, logs
from support.streams.streamed_log import (
    Emitted,
    Pace,
    Setting,
    Streamed,
    as_specified,
    batches_that_bring_something,
    stream,
)

PAYLOAD = [pa.field("action", pa.string()), pa.field("amount", pa.int64())]
LOGS = 56
SPREAD = 7
STRETCHES = (20, 100)
PARTITIONS = (1, 2)
AT_A_TIME = 3
"""Queries side by side: much of a small batch is waiting."""
WITHOUT_RESTARTS = (Pace.AT_ONCE, Pace.AT_ONCE, Pace.IN_QUIET)


@dataclass(frozen=True, slots=True)
class Case:
    log: Log
    setting: Setting
    partitions: int


def cases() -> list[Case]:
    """Every so manieth of many examples, as neighbours resemble each other."""
    found = examples_of(logs().filter(is_worth_it), LOGS * SPREAD)[::SPREAD]
    return [case_of(log, random.Random(number)) for number, log in enumerate(found)]


def is_worth_it(log: Log) -> bool:
    return len(batches_that_bring_something(log)) > 1 and any(batch.events for batch in log.batches)


def case_of(log: Log, chance: random.Random) -> Case:
    """Every fourth log is interrupted again and again."""
    factor = 1 if log.rules.clock is Clock.EVENT_TIME else chance.choice(STRETCHES)
    paces = tuple(Pace) if chance.random() < 0.25 else WITHOUT_RESTARTS
    setting = Setting(
        key_groups=chance.choice((2, 3)),
        emit_every_ms=chance.choice((0, 1, 7, 30)) * factor,
        paces=tuple(chance.choice(paces) for _ in batches_that_bring_something(log)),
    )
    return Case(stretched(as_specified(log), factor), setting, partitions=chance.choice(PARTITIONS))


def stretched(log: Log, factor: int) -> Log:
    """Every timeout and the longest duration, times ``factor``."""

    def longer(timeouts: dict[str, int]) -> dict[str, int]:
        return {client: longest(timeout_ms) for client, timeout_ms in timeouts.items()}

    def patient(event: Event) -> Event:
        return event if event.timeout_ms is None else replace(event, timeout_ms=longest(event.timeout_ms))

    def longest(timeout_ms: int) -> int:
        return min(timeout_ms * factor, 2**63 - 1)

    duration = log.rules.caps.max_duration_ms
    rules = replace(
        log.rules,
        gap_timeout_ms=log.rules.gap_timeout_ms * factor,
        client_timeouts_ms=longer(dict(log.rules.client_timeouts_ms)),
        caps=log.rules.caps._replace(max_duration_ms=duration and duration * factor),
    )
    batches = (
        replace(batch, events=tuple(map(patient, batch.events)), timeout_changes=longer(dict(batch.timeout_changes)))
        for batch in log.batches
    )
    return Log(rules, tuple(batches))


CASES = cases()
QUICK = 3
"""Logs that `make test` streams, one of each clock."""
CLOCKS = [case.log.rules.clock for case in CASES]
DRAWN = draw(CLOCKS, QUICK, commit())
REST = [number for number in range(len(CASES)) if number not in DRAWN]
NUMBERS = [*DRAWN, *(pytest.param(number, marks=pytest.mark.long) for number in REST)]


@pytest.fixture(scope="module")
def streamed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Streamed]]:
    """What a case's query did. It runs when first asked for, and those after it at the same time."""
    sessions = {partitions: session_with(spark, partitions) for partitions in PARTITIONS}
    running: dict[int, Future[Streamed]] = {}

    def run(number: int) -> Streamed:
        those = DRAWN if number in DRAWN else REST
        place = those.index(number)
        for ahead in those[place : place + AT_A_TIME]:
            if ahead not in running:
                case, home = CASES[ahead], tmp_path_factory.mktemp(f"log-{ahead}-")
                running[ahead] = pool.submit(stream, sessions[case.partitions], case.log, case.setting, home)
        return running[number].result()

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield run


def session_with(spark: SparkSession, partitions: int) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", partitions)
    return session


@pytest.mark.parametrize("number", NUMBERS)
def test_a_real_stream_equals_the_oracle(spark: SparkSession, streamed: Callable[[int], Streamed], number: int) -> None:
    case, outcome = CASES[number], streamed(number)
    assert_exact(case, outcome)
    assert_out_in_time(case, outcome)
    if any(batch.floor_ms == NEVER_MS for batch in case.log.batches):
        assert not any(outcome.state.values()), "a drain leaves no state"
        return
    last = len(outcome.batches) - 1
    for batch_id in sorted({last // 2, last}):
        assert_open(spark, case, outcome, batch_id)
    if case.log.rules.clock is Clock.EVENT_TIME:
        assert_watermarks_told(case, outcome)


def assert_open(spark: SparkSession, case: Case, outcome: Streamed, batch_id: int) -> None:
    """A savepoint of the batch would have the rows of all open events."""
    rules, batches = case.log.rules, outcome.batches[: batch_id + 1]
    expected = sessionize(batches, rules)
    events = event_schema(PAYLOAD, rules.clock)
    state = KeptState(outcome.checkpoint, batch_id, case.setting.key_groups, events)
    with reading_state(spark):
        rows = read_open_events(spark, state).toArrow()
        timeouts = dict(read_state_timeouts(spark, state))
    parts = [rows.filter(pa.compute.equal(rows.column(KEY_GROUP), group)) for group in range(state.key_groups)]
    left = settled([log_of(part) for part in parts if len(part)], expected.watermark_ms, rules)
    assert Counter(map(open_event_of_record, left.open_events)) == Counter(
        map(open_event_of_oracle, expected.open_events)
    )
    arrivals = {batch.arrived_at_ms for batch in outcome.batches}
    emitted = Counter(
        session_of_row(row, arrivals)
        for runs in outcome.runs[: batch_id + 1]
        for row in runs[-1].of_table.get(names.SESSIONS, [])
    )
    finished = Counter(session_of_record(row, arrivals) for row in left.sessions)
    assert emitted + finished == Counter(map(session_of_oracle, expected.closed))
    changed = {client: ms for batch in batches for client, ms in batch.timeout_changes.items()}
    assert timeouts == ({} if rules.clock is Clock.NONE else changed)


def assert_watermarks_told(case: Case, outcome: Streamed) -> None:
    """The watermark that a savepoint notes is Spark's of the next batch, and that of the definition."""
    told = [next_watermark(outcome.checkpoint, batch_id) for batch_id in range(len(outcome.batches))]
    planned = [read_planned_batch(outcome.checkpoint, batch_id) for batch_id in range(1, len(told))]
    assert told[:-1] == [batch.watermark_ms for batch in planned]
    nothing_more = replace(outcome.batches[-1], events=(), floor_ms=None, timeout_changes={})
    assert told[-1] == max(0, sessionize([*outcome.batches, nothing_more], case.log.rules).watermark_ms)


def assert_out_in_time(case: Case, outcome: Streamed) -> None:
    """Final rows are out a step and a batch later. In event time each stream is in a backlog: its events are old."""
    rules = replace(case.log.rules, emit_every_ms=case.setting.emit_every_ms)
    arrivals = {batch.arrived_at_ms for batch in outcome.batches}
    out: Counter[Any] = Counter()
    for runs, owed in zip(outcome.runs, owed_by_batch(outcome.batches, rules), strict=True):
        out += Counter(session_of_row(row, arrivals) for row in runs[-1].of_table.get(names.SESSIONS, []))
        assert not Counter(map(session_of_oracle, owed)) - out


@pytest.mark.long
def test_the_logs_are_worth_streaming(streamed: Callable[[int], Streamed]) -> None:
    """All that can happen does, and often enough to be believed."""
    seen = sum((happenings(case, streamed(number)) for number, case in enumerate(CASES)), Counter[str]())
    assert len(seen) == 15, str(seen)
    # how often a session closes with no data is up to the machine, and when Spark runs its batches
    least = {what: 3 if what.startswith("closed with no data") else 10 for what in seen}
    assert all(count >= least[what] for what, count in seen.items()), str(seen)


DRAWN_FOR_PLAIN = draw(CLOCKS, 1, commit())


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=() if number in DRAWN_FOR_PLAIN else pytest.mark.long) for number in range(len(CASES))],
)
def test_a_stream_without_anything_private_equals_the_oracle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setenv(PLAIN_SPARK, "1")
    case = CASES[number]
    assert_exact(case, stream(session_with(spark, case.partitions), case.log, case.setting, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("number", range(0, len(CASES), 7))
def test_a_stream_with_its_data_on_hdfs_equals_the_oracle(
    spark: SparkSession, tmp_path: Path, hdfs_folder: UPath, number: int
) -> None:
    case, data = CASES[number], data_root(uri_of(hdfs_folder), tmp_path)
    session = session_with(spark, case.partitions)
    for name in local_checkpoint_settings():
        session.conf.unset(name)
    assert_exact(case, stream(session, case.log, case.setting, tmp_path, data))


def assert_exact(case: Case, outcome: Streamed) -> None:
    """All that is out and all that is left is as defined, and a batch that runs again adds nothing."""
    rules = case.log.rules
    expected = sessionize(outcome.batches, rules)
    arrivals = {batch.arrived_at_ms for batch in outcome.batches}
    left = settled(outcome.state.values(), expected.watermark_ms, rules)
    emitted = Counter(session_of_row(row, arrivals) for row in outcome.rows(names.SESSIONS))
    closed = Counter(map(session_of_oracle, expected.closed))
    assert not emitted - closed, "emitted before it was final"
    assert emitted + Counter(session_of_record(row, arrivals) for row in left.sessions) == closed
    assert Counter(map(open_event_of_record, left.open_events)) == Counter(
        map(open_event_of_oracle, expected.open_events)
    )
    late = Counter(map(late_event_of_row, outcome.rows(names.LATE_EVENTS)))
    assert late == Counter(map(late_event_of_oracle, expected.late))
    refused = Counter(map(conflict_of_row, outcome.rows(names.QUARANTINE)))
    refused += Counter(map(event_of_record, left.conflicting))
    assert refused == Counter(map(event_of_oracle, expected.conflicting))
    assert outcome.repeated + left.repeated == expected.duplicates_dropped
    for first, *again in outcome.runs:
        assert all(content(run) == content(first) for run in again)


@dataclass(frozen=True, slots=True)
class Left:
    """What the state holds, settled: sessions that are final but wait for their turn, and the rest."""

    sessions: list[Record]
    open_events: list[Record]
    conflicting: list[Record]
    repeated: int


def settled(logs: Iterable[list[pa.Table]], final_by_ms: int, rules: SessionRules) -> Left:
    merged = [merge(log, final_by_ms, rules, PAYLOAD) for log in logs if log]
    return Left(
        sessions=[row for part in merged for row in records(part.sessions)],
        open_events=[row for part in merged for table in part.open_events for row in records(table)],
        conflicting=[row for part in merged for row in records(part.conflicting)],
        repeated=sum(part.repeated for part in merged),
    )


def content(run: Emitted) -> dict[str, Counter[Any]]:
    """All but the moment at which a row was written."""
    moments = ("emitted_at", "noticed_at", "quarantined_at")
    tidied = {
        table: Counter(repr([value for name, value in row.asDict().items() if name not in moments]) for row in rows)
        for table, rows in run.of_table.items()
    }
    return {**tidied, "repeated": Counter({"": run.repeated})}


def happenings(case: Case, outcome: Streamed) -> Counter[str]:
    log = case.log
    expected = sessionize(outcome.batches, log.rules)
    owed = owed_by_batch(outcome.batches, replace(log.rules, emit_every_ms=case.setting.emit_every_ms))
    quiet = [not batch.events and batch.floor_ms is None for batch in outcome.batches]
    closed_in_quiet = sum(
        len(runs[-1].of_table.get(names.SESSIONS, []))
        for runs, is_quiet in zip(outcome.runs, quiet, strict=True)
        if is_quiet
    )
    return Counter(session.close_reason.value for session in expected.closed) + Counter(
        {
            "open event": len(expected.open_events),
            "late event": len(expected.late),
            "conflicting duplicate": len(expected.conflicting),
            "duplicate": expected.duplicates_dropped,
            f"closed with no data in {log.rules.clock}": closed_in_quiet,
            "owed before the end": len(owed[-1]),
            "batch run again": sum(len(runs) - 1 for runs in outcome.runs),
            "watermark told": len(
                {next_watermark(outcome.checkpoint, batch_id) for batch_id in range(len(outcome.batches))}
            )
            - 1,
        }
    )


PAGE = REPOSITORY / "docs" / "sessions.md"
APART_MS = 100_000
FEW_EXAMPLES = 5
END_MS = 50_000
"""From the start of an example: later than all of it."""


def examples_by_rules() -> list[list[Example]]:
    found: dict[str, list[Example]] = {}
    for number, example in enumerate(read_examples(PAGE), start=1):
        if all(batch.arrived_at_ms >= FAR_FROM_NOW_MS for batch in example.batches):
            found.setdefault(repr(example.rules), []).append(moved(example, number))
    return list(found.values())


def moved(example: Example, number: int) -> Example:
    """The example with its own keys and, in event time, at its own time; its drain is a floor that ends no other."""
    by_ms = number * APART_MS if example.rules.clock is Clock.EVENT_TIME else 0

    def events(given: Iterable[Event]) -> list[Event]:
        times = ((event, event.event_time_ms and event.event_time_ms + by_ms) for event in given)
        return [replace(event, key=f"{event.key}{number}", event_time_ms=time_ms) for event, time_ms in times]

    def batch(given: Batch) -> Batch:
        floor_ms = given.floor_ms
        if by_ms:
            floor_ms = by_ms + (END_MS if floor_ms == NEVER_MS else floor_ms or 0)
        return replace(given, events=tuple(events(given.events)), floor_ms=floor_ms)

    def told(given: Told) -> Told:
        sessions = [replace(session, events=tuple(events(session.events))) for session in given.sessions]
        return replace(given, sessions=sessions, late=events(given.late), conflicting=events(given.conflicting))

    return replace(
        example,
        batches=list(map(batch, example.batches)),
        told=list(map(told, example.told)),
        open_events=events(example.open_events),
    )


RULE_SETS = [
    # the rules of most examples are those of the drawn logs as well
    pytest.param(each, id=f"from line {each[0].line}", marks=pytest.mark.long if len(each) > FEW_EXAMPLES else ())
    for each in examples_by_rules()
]


@pytest.mark.parametrize("examples", RULE_SETS)
def test_a_real_stream_does_as_the_page_says(spark: SparkSession, tmp_path: Path, examples: list[Example]) -> None:
    streamed = run(spark, tmp_path, examples)
    told = [told for example in examples for told in example.told]
    sessions = Counter(map(example_of_row, streamed.rows(names.SESSIONS)))
    expected = Counter(
        (session.events[0].key, tuple(event.event_id for event in session.events), session.reason)
        for each in told
        for session in each.sessions
    )
    assert not expected - sessions
    ended_later = [(key, event_id) for key, ids, _ in (sessions - expected).elements() for event_id in ids]
    assert Counter(ended_later) == Counter(
        (event.key, event.event_id) for example in examples for event in example.open_events
    )
    late = Counter(map(late_event_of_row, streamed.rows(names.LATE_EVENTS)))
    assert late == Counter(late_event_of_oracle(event) for each in told for event in each.late)
    conflicting = Counter(map(conflict_of_row, streamed.rows(names.QUARANTINE)))
    assert conflicting == Counter(event_of_oracle(event) for each in told for event in each.conflicting)
    assert streamed.repeated == sum(len(each.repeated) for each in told)


def run(spark: SparkSession, home: Path, examples: list[Example]) -> Streamed:
    """The examples' batches, each as one micro-batch, and a drain after them."""
    batches = [*(batch for example in examples for batch in example.batches), drain_at(0)]
    log = Log(examples[0].rules, tuple(batches))
    assert batches_that_bring_something(log) == batches
    paces = (*[Pace.AT_ONCE] * (len(batches) - 1), Pace.IN_QUIET)
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", 1)
    streamed = stream(session, log, Setting(key_groups=2, emit_every_ms=1, paces=paces), home)
    brought = [batch.events for batch in batches_that_bring_something(Log(log.rules, tuple(streamed.batches)))]
    assert brought == [batch.events for batch in batches], "Spark made other micro-batches of them"
    return streamed


def example_of_row(row: Any) -> tuple[Any, ...]:
    return (row["key"], tuple(event["event_id"] for event in row["events"]), row["close_reason"])
