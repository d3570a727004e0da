"""Streams whose spec, timeouts or clocks change, and whose source falls quiet, against the definition.

Rules, payload and measures change while sessions are open: columns come, go, change places and become wider. Streams
share one Spark and run side by side, as much of a small batch is waiting.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.rules import Clock
from sessionizer.core.wire import rows
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.source import read_guarded_source
from sessionizer.spark.query.assembly import session_query
from sessionizer_demo.feed.generator import Row
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.traffic.events import ClickEvent
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import assert_as_defined, epoch_ms, table_rows
from support.faults.bad_clicks import START_MS, click, line
from support.places import opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up
from support.streams.changing_stream import (
    Told,
    tell,
)
from support.streams.changing_stream import assert_as_defined as assert_told_as_defined
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
    assert_told_as_defined(told(number))


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


TRIGGER_MS = 1_000
EMIT_EVERY_MS = 1_000
GAP_MS = 4_000
SLOW_GAP_MS = 30_000
DELAY_MS = 1_000
STALL_MS = 20_000
IDLE_AFTER_MS = 2_000
BATCH_MS = 15_000
"""How long a batch may take on a busy machine: what is due while one runs has to wait for the next."""


def quiet_spec(time_mode: str, files_per_batch: int = 1, **rules: Any) -> dict[str, Any]:
    """Its trigger and steps of emission take a second."""
    quick = {"gap_timeout": "4 seconds", "watermark_delay": "1 second", "emit_every": "1 second"}
    return clicks_spec(files_per_batch, time_mode=time_mode, client_timeouts={"slow": "30 seconds"}, **quick, **rules)


def send(stage: Stage, *lines: str) -> None:
    name = f"{time.time_ns()}.json"
    (stage.feed / f".{name}").write_text("\n".join(lines))
    (stage.feed / f".{name}").rename(stage.feed / name)


def send_now(stage: Stage, *clicks: dict[str, Any]) -> None:
    now_ms = int(time.time() * 1000)
    send(stage, *(json.dumps(columns | {"ts": now_ms}) for columns in clicks))


@contextmanager
def running(stage: Stage) -> Iterator[DriverProcess]:
    """A driver that has a first batch behind it, which takes longer than any other."""
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        send_now(stage, click(1, "warm"))
        driver.wait_for(lambda: bool(stage.lineage and CheckpointLog(stage.checkpoint).committed()), "a first batch")
        yield driver


def rows_of(stage: Stage, table: str) -> list[dict[str, Any]]:
    folder = stage.table(table)
    return table_rows(folder) if opened(folder / "_delta_log").is_dir() else []


def emitted(stage: Stage) -> dict[str, dict[str, Any]]:
    """The sessions so far by key."""
    return {row["key"]: row for row in rows_of(stage, "sessions")}


def lag_ms(stage: Stage, key: str, gap_ms: int) -> int:
    session = emitted(stage)[key]
    return epoch_ms(session["emitted_at"]) - epoch_ms(session["ended_at"]) - gap_ms


@pytest.mark.long
def test_event_time_goes_on_by_itself_even_over_a_restart(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, quiet_spec("event_time", idle_after="2 seconds"))
    with running(stage) as driver:
        send_now(stage, click(1, "ann"), click(1, "bob", client="slow"))
        driver.wait_for(lambda: "ann" in emitted(stage), "the session of ann")
        driver.kill_all()
    assert "bob" not in emitted(stage)
    with DriverProcess.start(stage, "b", until="stopped") as driver:
        driver.wait_for(lambda: "bob" in emitted(stage), "the session of bob, though it never saw an event")

    # the watermark is behind by the delay, and moves in steps of emit_every, a trigger apart
    steps_ms = DELAY_MS + 2 * EMIT_EVERY_MS + 2 * TRIGGER_MS
    assert 0 <= lag_ms(stage, "ann", GAP_MS) <= IDLE_AFTER_MS + steps_ms + BATCH_MS
    assert lag_ms(stage, "bob", SLOW_GAP_MS) >= 0


@pytest.mark.long
def test_processing_time_closes_within_the_gap_and_a_trigger(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, quiet_spec("processing_time"))
    with running(stage) as driver:
        send_now(stage, click(1, "ann"), click(2, "ann"), click(1, "bob"))
        driver.wait_for(lambda: {"ann", "bob"} <= emitted(stage).keys(), "both sessions")
    for key in ("ann", "bob"):
        assert 0 <= lag_ms(stage, key, GAP_MS) <= EMIT_EVERY_MS + TRIGGER_MS + BATCH_MS


@pytest.mark.long
def test_without_a_timeout_what_is_closed_comes_out_and_the_rest_stays(tmp_path: Path) -> None:
    stage = Stage.set_up(tmp_path, quiet_spec("none", max_events=2))
    with running(stage) as driver:
        send_now(stage, click(1, "ann", type="logout"), click(1, "bob"), click(2, "bob"), click(1, "cy"))
        driver.wait_for(lambda: {"ann", "bob"} <= emitted(stage).keys(), "what is closed")
        reached = {key: lag_ms(stage, key, 0) for key in ("ann", "bob")}
    assert all(0 <= lag <= EMIT_EVERY_MS + TRIGGER_MS + BATCH_MS for lag in reached.values()), reached
    assert "cy" not in emitted(stage)


def open_in_heartbeat(stage: Stage) -> int | None:
    beat = HEARTBEAT_FILE.of(stage.stream_home).read()
    return None if beat is None else beat.open_keys


@pytest.mark.long
def test_the_watermark_waits_where_the_last_open_session_ended(tmp_path: Path) -> None:
    """Changes of a table of timeouts stay in the state when nothing is open any more."""
    timeouts = pa.table({"client": ["globex"], "timeout_ms": pa.array([GAP_MS])})
    write_deltalake(tmp_path / "home" / "timeouts", timeouts)
    table = {"client_timeouts_table": "timeouts", "idle_after": "2 seconds"}
    stage = Stage.set_up(tmp_path, quiet_spec("event_time", 1_000, **table))
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        began_ms = int(time.time() * 1000)
        send(stage, *(json.dumps(click(number, "ann", ts=began_ms)) for number in range(2)))
        driver.wait_for(lambda: bool(stage.lineage and CheckpointLog(stage.checkpoint).committed()), "a first batch")
        driver.wait_for(lambda: open_in_heartbeat(stage) == 1, "a session that is open before any group has merged")

        def nothing_but_rubbish() -> bool:
            """A source of refused rows only is quiet."""
            send(stage, "no JSON")
            return "ann" in emitted(stage)

        driver.wait_for(nothing_but_rubbish, "the session of ann, in spite of rows that are refused", every_s=0.5)
        driver.wait_for(lambda: open_in_heartbeat(stage) == 0, "nothing open")
        driver.wait_for(lambda: time.time() * 1000 > began_ms + STALL_MS, "the end of the stall")
        # what happened in the stall, from when the session of ann was over
        moments = range(began_ms + GAP_MS + EMIT_EVERY_MS + 1, began_ms + STALL_MS, 1_000)
        send(stage, *(json.dumps(click(number, "bob", ts=at)) for number, at in enumerate(moments)))
        driver.wait_for(lambda: "bob" in emitted(stage), "the session of bob")
    assert rows_of(stage, "late_events") == []
    assert [row["event_count"] for row in rows_of(stage, "sessions") if row["key"] == "bob"] == [len(moments)]


FIVE_MINUTES = 300
"""In clicks, which are a second apart: far more than the gap, the delay and the step of emission together."""


def stage_with_backlog(root: Path, files: int) -> Stage:
    stage = Stage.set_up(root, clicks_spec(files_per_batch=1) | {"key_groups": 1})
    for number in range(files):
        file = stage.feed / f"{number}.json"
        file.write_bytes(line(number * FIVE_MINUTES, f"user-{number}"))
        os.utime(file, (number, number))  # Spark reads the oldest first
    return stage


def test_what_waits_in_a_backlog_comes_out_with_the_next_batch(spark: SparkSession, tmp_path: Path) -> None:
    stage = stage_with_backlog(tmp_path, files=6)

    catch_up(spark, stage)

    batch_of = {row["key"]: row["batch_id"] for row in table_rows(stage.table("sessions"))}
    # the sixth batch has the last data, the seventh has none; nobody can tell yet that the sixth user is gone
    assert batch_of == {"user-0": 2, "user-1": 4, "user-2": 4, "user-3": 6, "user-4": 6}


@pytest.mark.long
def test_a_replay_goes_by_the_clock_that_the_batch_had(spark: SparkSession, tmp_path: Path) -> None:
    """Today's clock makes the batch one of a backlog. The clock of its log makes it up to date."""
    stage = stage_with_backlog(tmp_path, files=4)
    (punctuations := tmp_path / "punctuations").mkdir()
    log = CheckpointLog(tmp_path / "checkpoint")
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    merged: list[int] = []

    def look(emitted: DataFrame, batch_id: int) -> None:
        merged.extend([batch_id] * any(row.kind == rows.SESSIONS for row in emitted.collect()))

    def run() -> None:
        guarded = read_guarded_source(session, stage.spec(), stage.home)
        query = session_query(session, stage.spec(), guarded, punctuations)
        query.start(look, log.location, every_ms=None).awaitTermination()

    run()
    assert merged == [2]
    log.forget_last_commit()
    log.set_clock(3, START_MS + 3 * FIVE_MINUTES * 1_000)
    run()
    assert merged == [2, 3]
