"""Background work of a driver: what does not answer, or fails, holds up nothing."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sessionizer.control import lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.status.driver_status import DriverStatus, State, read_driver
from sessionizer.core.definition.rules import IdleClock
from sessionizer.errors import StreamMovedOn
from sessionizer.home.clock import DAY, HOUR, MINUTE, SECOND, epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, require_lineage, start_lineage
from sessionizer.lineage.canary.canary_record import begin_canary, promote_lineage, read_canary, write_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.spark.driver import driver_loop as driving
from sessionizer.spark.driver.driver_loop import CanaryRollbackRunner
from sessionizer.spark.driver.housekeeping import Housekeeping
from sessionizer.spark.driver.lookups import BackgroundWork
from sessionizer.spark.driver.options import DriverOptions
from sessionizer.spark.ingest import punctuation as punctuation_removal
from sessionizer.spark.ingest.punctuation import RETRY_AFTER_MS, PunctuationRemoval
from sessionizer.state.commands.restores import Rollback
from sessionizer.state.commands.steps import PointOfNoReturn
from sessionizer.stream_spec.spec_folder import SpecFile
from support.places import known
from support.streams.stage import Stage, clicks_spec

WITHIN_S = 60.0


def test_one_piece_is_done_at_a_time_and_nobody_waits_for_it() -> None:
    work, answered, done = BackgroundWork("store"), threading.Event(), list[str]()

    def ask() -> None:
        if answered.wait(WITHIN_S):
            done.append("first")

    work.start(ask)
    assert work.is_busy
    work.start(lambda: done.append("second"))
    work.end(0.01)
    assert done == []
    answered.set()
    work.end(WITHIN_S)
    work.start(lambda: done.append("third"))
    work.end(WITHIN_S)
    assert (done, work.is_busy) == (["first", "third"], False)


def test_an_error_ends_one_piece_and_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    work, done, printed = BackgroundWork("store"), list[str](), list[threading.ExceptHookArgs]()
    monkeypatch.setattr(threading, "excepthook", printed.append)

    def fail() -> None:
        raise PermissionError

    work.start(fail)
    work.end(WITHIN_S)
    work.start(lambda: done.append("next"))
    work.end(WITHIN_S)
    assert (done, [each.exc_type for each in printed]) == (["next"], [PermissionError])


def test_a_start_after_a_long_rollback_has_all_of_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    home, seen = stage.stream_home, list[DriverStatus]()

    def say(line: str) -> None:
        if line.startswith("starting Spark"):
            seen.append(read_driver(home, epoch_ms()))
            raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(lease, "epoch_ms", lambda: epoch_ms() - 60 * MINUTE)
        patched.setattr(driving, "roll_back_if_due", lambda *_: patched.setattr(lease, "epoch_ms", epoch_ms))
        with pytest.raises(SystemExit):
            driving.drive(home, SpecFile(stage.name, stage.spec()), DriverOptions("a", master="local[2]"), say)
    (status,) = seen
    assert (status.state, status.stall) == (State.STARTING, None)


@pytest.fixture
def home_of_canary(home: StreamHome) -> StreamHome:
    """A stream whose second lineage failed its canary."""
    first = start_lineage(home, spec=LineageSpec({}))
    second = make_lineage(home, LineageSpec({}))
    begin_canary(home, second, "rescale", first, CanaryTerms(goes_back=True))
    activate_lineage(home, second, first)
    write_canary(home, known(read_canary(home, second)).decided(CanaryOutcome.FAILED, "as the test says"))
    return home


def test_a_promotion_while_spark_starts_ends_the_rollback_of_a_failed_canary(home_of_canary: StreamHome) -> None:
    """The driver looks for one before it deletes a row."""
    home, lineage = home_of_canary, require_lineage(home_of_canary)
    record = new_operation(home, Rollback.name, "0123456789abcdef", "the driver", (lineage, 0))
    runner = CanaryRollbackRunner(spark=cast("SparkSession", None), home=home, command=Rollback())
    promote_lineage(home, "ann")
    with pytest.raises(StreamMovedOn) as ended:
        runner.run(PointOfNoReturn(), Operation(home, record, lambda: None))
    assert {"ann", lineage} <= set(ended.value.cause.split())


class Query:
    """A checkpoint each of whose batches has read one punctuation, with the number of the batch."""

    def __init__(self, root: Path) -> None:
        self.checkpoint, self.folder = root / "checkpoint", root / "punctuations"
        for folder in ("offsets", "commits", "sources/1"):
            (self.checkpoint / folder).mkdir(parents=True)
        self.folder.mkdir()
        self.said: list[str] = []

    def commit(self, batch_id: int) -> int:
        (self.folder / f"{batch_id}.json").touch()
        entry = {"path": f"file:///x/{batch_id}.json", "timestamp": batch_id, "batchId": batch_id}
        self._write(f"sources/1/{batch_id}", json.dumps(entry))
        about = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
        self._write(f"offsets/{batch_id}", about, "-", json.dumps({"logOffset": batch_id}))
        self._write(f"commits/{batch_id}", "{}")
        return batch_id

    def forget(self, batch_id: int) -> None:
        for log in ("offsets", "commits"):
            (self.checkpoint / log / str(batch_id)).unlink()

    @property
    def left(self) -> list[int]:
        return sorted(int(file.stem) for file in self.folder.iterdir())

    def _write(self, name: str, *lines: str) -> None:
        (self.checkpoint / name).write_text("\n".join(["v1", *lines]))


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path)


@pytest.fixture
def removal(query: Query, monkeypatch: pytest.MonkeyPatch) -> PunctuationRemoval:
    monkeypatch.setattr(punctuation_removal, "monotonic_ms", lambda: clock[0])
    clock[0] = 1_000_000
    removal = PunctuationRemoval(query.folder, query.checkpoint, query.said.append, keep=0)
    removal.remove(query.commit(0))
    assert (query.left, query.said) == ([], [])
    return removal


def remove_later(query: Query, removal: PunctuationRemoval, batch_id: int) -> None:
    """A minute later all is removed, without a further word."""
    said = len(query.said)
    clock[0] += RETRY_AFTER_MS
    assert removal.is_due(batch_id), "without another batch"
    removal.remove(batch_id)
    removal.remove(query.commit(batch_id + 1))
    assert (query.left, len(query.said)) == ([], said)


clock = [0]


def test_each_committed_batch_is_due_once(query: Query, removal: PunctuationRemoval) -> None:
    assert not removal.is_due(0)
    assert not removal.is_due(None)
    assert removal.is_due(query.commit(1))
    removal.remove(1)
    assert query.left == []
    assert not removal.is_due(1)


@pytest.mark.parametrize("away", ["checkpoint", "punctuations"])
def test_what_a_store_that_was_away_kept_is_removed_a_minute_later(
    query: Query, removal: PunctuationRemoval, away: str
) -> None:
    folder = query.checkpoint if away == "checkpoint" else query.folder
    hidden = folder.with_name("hidden")
    for batch_id in (1, 2):
        query.commit(batch_id)
    folder.rename(hidden)
    if away == "punctuations":
        folder.touch()  # no folder: each removal fails
    removal.remove(2)
    assert len(query.said) == 1
    assert not removal.is_due(2), "not at once"
    if away == "punctuations":
        folder.unlink()
    hidden.rename(folder)
    assert query.left == [1, 2]
    remove_later(query, removal, 2)


def test_a_removal_that_still_fails_is_tried_again(query: Query, removal: PunctuationRemoval) -> None:
    file = query.folder / f"{query.commit(1)}.json"
    file.unlink()
    file.mkdir()  # cannot be deleted as a file
    removal.remove(1)
    clock[0] += RETRY_AFTER_MS
    removal.remove(1)
    removal.remove(query.commit(2))
    assert len(query.said) == 2
    file.rmdir()
    file.touch()
    remove_later(query, removal, 2)


def test_batches_that_spark_forgot_meanwhile_do_not_stop_the_removal(query: Query, removal: PunctuationRemoval) -> None:
    for batch_id in (1, 2, 3):
        query.commit(batch_id)
    for batch_id in (0, 1):
        query.forget(batch_id)
    removal.remove(3)
    assert len(query.said) == 1
    remove_later(query, removal, 3)


def waker(moved: list[object], events: Iterator[int | None], busy: Iterator[bool]) -> Callable[[], None]:
    """Return a look of a driver at its quiet source. ``moved`` gets the watermarks that it moves."""
    housekeeping = object.__new__(Housekeeping)
    beat = SimpleNamespace(watermark_ms=500)
    heartbeat = SimpleNamespace(take_events_at=lambda: next(events), is_caught_up=lambda *_: True, beat=beat)
    vars(housekeeping).update(
        _idle=IdleClock(MINUTE, SECOND),
        _waking=SimpleNamespace(start=moved.append),
        _not_woken=None,
        _heartbeat=heartbeat,
        _prepared=SimpleNamespace(open_sessions=SimpleNamespace(latest_due_ms=DAY)),
    )

    def look() -> None:
        vars(housekeeping)["_waking"].is_busy = next(busy)
        housekeeping._wake_quiet_stream(cast("StreamingQuery", SimpleNamespace(status={})))

    return look


@pytest.mark.parametrize("busy", [(False, False, False), (False, True, False)])
def test_a_stop_of_the_process_after_a_batch_moves_no_watermark(
    monkeypatch: pytest.MonkeyPatch, busy: tuple[bool, ...]
) -> None:
    """An hour passes between a batch with events and the look that learns of it, also while a floor is on its way."""
    now, moved = [1_000], list[object]()
    monkeypatch.setattr("sessionizer.spark.driver.housekeeping.monotonic_ms", lambda: now[0])
    look = waker(moved, iter([None, 1_500, None]), iter(busy))
    look()
    now[0] += HOUR
    look()
    now[0] += SECOND
    look()
    assert moved == []


def test_a_step_of_the_wall_clock_moves_no_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept wakes up a day later, with a day of events that its source holds."""
    step_ns, time_ns, moved = [0], time.time_ns, list[object]()
    monkeypatch.setattr(time, "time_ns", lambda: time_ns() + step_ns[0])
    look = waker(moved, repeat(None), repeat(False))
    for step_ns[0] in (0, DAY * 1_000_000, -DAY * 1_000_000):
        look()
    assert moved == []


def test_an_offset_of_long_ago_that_cannot_be_read_does_not_stop_a_driver_from_starting(query: Query) -> None:
    """Spark itself reads the newest ones only."""
    for batch_id in (0, 1):
        query.commit(batch_id)
    (query.checkpoint / "offsets" / "0").write_text("")
    removal = PunctuationRemoval(query.folder, query.checkpoint, query.said.append)
    removal.remove(1)
    assert len(query.said) == 1
