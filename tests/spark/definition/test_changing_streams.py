"""Random streams whose spec is changed between any two drivers, in real queries and tables, against the definition.

Rules, payload and measures change while sessions are open: columns come, go, change places and become wider. Streams
share one Spark and run side by side, as much of a small batch is waiting.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import Clock
from sessionizer.spark.ingest import punctuation
from sessionizer_demo.feed.generator import Row
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.traffic.events import ClickEvent
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, epoch_ms, table_rows
from support.faults.bad_clicks import START_MS, click
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up
from support.streams.changing_stream import (
    Told,
    conflicts_defined,
    conflicts_in,
    late_defined,
    late_in,
    sessions_defined,
    sessions_in,
    tell,
)
from support.streams.moments import Moment, freeze_at
from support.streams.stage import Stage, clicks_spec
from support.streams.strategies import Log, examples_of, logs
from support.streams.streamed_log import batches_that_bring_something

STREAMS = 32
SPREAD = 3
QUICK = 1
"""So many run with all other tests."""
DRIVERS = 4
AT_A_TIME = 2


def is_worth_it(log: Log) -> bool:
    return (
        len(batches_that_bring_something(log)) > DRIVERS and sum(len(batch.events) for batch in log.batches) > DRIVERS
    )


@cache
def drawn_logs() -> list[Log]:
    """Draw the log of each stream, when the first one runs: every worker of a run imports this file."""
    return examples_of(logs([Clock.EVENT_TIME], drained=True).filter(is_worth_it), STREAMS * SPREAD)[::SPREAD]


NUMBERS = [number if number < QUICK else pytest.param(number, marks=pytest.mark.long) for number in range(STREAMS)]


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Told]]:
    """What became of a stream. It runs when first asked for, and the one after it at the same time."""
    running: dict[int, Future[Told]] = {}

    def run(number: int) -> Told:
        last = QUICK if number < QUICK else STREAMS
        for ahead in range(number, min(number + AT_A_TIME, last)):
            if ahead not in running:
                root = tmp_path_factory.mktemp(f"stream-{ahead}-")
                running[ahead] = pool.submit(tell, spark.newSession(), drawn_logs()[ahead], ahead, DRIVERS, root)
        return running[number].result()

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield run


@pytest.mark.parametrize("number", NUMBERS)
def test_a_stream_whose_spec_changes_equals_the_oracle(told: Callable[[int], Told], number: int) -> None:
    stream = told(number)
    outcome = stream.outcome()
    assert not outcome.open_events, "the last batch drains"
    assert sessions_in(stream) == sessions_defined(stream, outcome)
    assert late_in(stream) == late_defined(outcome)
    assert conflicts_in(stream) == conflicts_defined(outcome)


@pytest.mark.long
def test_the_streams_are_worth_it(told: Callable[[int], Told]) -> None:
    """All that can change does, and often enough to be believed."""
    seen = sum((happenings(told(number)) for number in range(STREAMS)), Counter[str]())
    assert len(seen) == 9, str(seen)
    assert all(count >= 5 for count in seen.values()), str(seen)


def happenings(stream: Told) -> Counter[str]:
    seen = Counter(late=len(stream.outcome().late), conflicting=len(stream.outcome().conflicting))
    for before, after in zip(stream.editions, stream.editions[1:], strict=False):
        was, now = ({field.name: field.type for field in one.payload} for one in (before, after))
        begun = stream.edition_of.index(after) if after in stream.edition_of else 0
        seen["rules"] += before.rules != after.rules
        seen["column added"] += bool(now.keys() - was.keys())
        seen["column removed"] += bool(was.keys() - now.keys())
        seen["column widened"] += any(was[name] != now[name] for name in was.keys() & now.keys())
        seen["measure added"] += bool(set(after.measured) - set(before.measured))
        seen["measure removed"] += bool(set(before.measured) - set(after.measured))
        open_then = sessionize(stream.batches[:begun], stream.editions[0].rules).open_events
        seen["open across a change"] += bool(open_then) and before != after
    return seen


ANNOUNCED = "timeouts changed from the next event on"


def set_timeouts(stage: Stage, timeouts_s: dict[str, int]) -> None:
    timeouts = pa.array([seconds * 1_000 for seconds in timeouts_s.values()], pa.int64())
    table = pa.table({"client": pa.array(list(timeouts_s), pa.string()), "timeout_ms": timeouts})
    write_deltalake(stage.home / "timeouts", table, mode="overwrite")


def row(second: int, user: str, client: str) -> Row:
    event = ClickEvent(f"{user}-{second}", user, client, START_MS + second * 1_000, "view", "/", 1.0, "tv", None)
    columns = {name: getattr(event, name) for name in ("event_id", "user_id", "client", "ts", "type", "page")}
    columns |= {"amount": event.amount, "device": event.device, "timeout_s": None}
    return Row(event.ts, RowKind.NORMAL, user, json.dumps(columns).encode(), event)


def write(stage: Stage, name: str, seconds: Iterable[int]) -> tuple[Row, ...]:
    """A file in which ann of acme and bob of globex click at these seconds."""
    rows = tuple(
        row(second, user, client) for second in seconds for user, client in (("ann", "acme"), ("bob", "globex"))
    )
    hidden = stage.feed / f".{name}"
    hidden.write_bytes(b"\n".join(each.value for each in rows))
    hidden.rename(stage.feed / name)
    return rows


def read(stage: Stage, name: str) -> bool:
    return any(name in batch.files for batch in CheckpointLog(stage.checkpoint).committed())


@pytest.mark.long
def test_a_new_timeout_holds_from_the_next_event_on_and_in_every_replay(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(client_timeouts_table="timeouts", idle_after=None))
    told = [{"acme": 10_000, "globex": 20_000}, {"acme": 60_000}, {"acme": 5_000, "globex": 30_000}]
    files = {}
    set_timeouts(stage, {"acme": 10, "globex": 20})
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        files["1.json"] = write(stage, "1.json", (0, 8))
        driver.wait_for(lambda: stage.lineage is not None and read(stage, "1.json"), "the first file")
        set_timeouts(stage, {"acme": 60, "globex": 20})
        driver.wait_for_line(ANNOUNCED)
        files["2.json"] = write(stage, "2.json", (16, 24))
        # killed with the new timeout in the tables of no batch, or of one that is not committed
        freeze_at(Moment.BATCH_RUNS, driver, stage)
        driver.kill_all()
    with DriverProcess.start(stage, "b", until="stopped") as driver:
        driver.wait_for(lambda: read(stage, "2.json"), "the second file")
        # globex leaves the table: the stream's own timeout holds again
        set_timeouts(stage, {"acme": 5})
        driver.wait_for_line(ANNOUNCED)
        files["3.json"] = write(stage, "3.json", (70, 78, 95))
        driver.wait_for(lambda: read(stage, "3.json"), "the third file")
        driver.kill_all()
    run_to_end(stage, "c")

    names = sorted(name for batch in CheckpointLog(stage.checkpoint).committed() for name in batch.files - files.keys())
    assert len(names) == len(told) + 1, "three changes and a drain"
    assert_as_defined(stage, files, dict(zip(names, told, strict=False)))
    seen = [(session["key"], session["event_count"]) for session in table_rows(stage.table("sessions"))]
    assert sorted(seen) == [("ann", 1), ("ann", 1), ("ann", 5), ("bob", 3), ("bob", 4)]


MINUTE_MS = 60_000


@pytest.mark.long
def test_a_clock_within_the_tolerance_ahead_makes_nobody_late(spark: SparkSession, tmp_path: Path) -> None:
    """At the defaults: ten minutes of delay, and as much of tolerance."""
    stage = Stage.set_up(tmp_path, clicks_spec(watermark_delay="10 minutes", gap_timeout="30 minutes"))
    now_ms = int(time.time() * 1000)
    ahead_ms = now_ms + 9 * MINUTE_MS
    on_time = [click(number, "bob", ts=now_ms - 9 * MINUTE_MS + 1_000 * number) for number in range(190)]
    batches = [[click(1, "ann", ts=ahead_ms, type="logout")], on_time]
    for number, clicks in enumerate(batches):
        (stage.feed / f"{number}.json").write_text("\n".join(json.dumps(columns) for columns in clicks))
    catch_up(spark, stage)
    assert len(table_rows(stage.table("late_events"))) == 0

    # her session ends where her clock says, once time has come there by the clocks of others: here by hand
    (stage.feed / "2.json").write_text(json.dumps(click(200, "bob", ts=now_ms + MINUTE_MS)))
    catch_up(spark, stage)
    assert table_rows(stage.table("sessions")) == []
    punctuate(stage, ahead_ms + MINUTE_MS)
    catch_up(spark, stage)
    (session,) = table_rows(stage.table("sessions"))
    assert (session["key"], epoch_ms(session["started_at"])) == ("ann", ahead_ms)


def punctuate(stage: Stage, floor_ms: int) -> None:
    assert stage.lineage
    punctuation.move_watermark(stage.stream_home.punctuations(stage.lineage), floor_ms)
