"""Housekeeping of a driver: no store that is away, no odd file and no step of the wall clock ends or misleads it."""

import errno
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from sessionizer.control.history.files import read_history
from sessionizer.control.lease import acquire
from sessionizer.control.records.driver_records import ANSWER_FILE, QUESTION_FILE, Question
from sessionizer.core.key_group.group_load import OpenInGroup
from sessionizer.core.wire import rows
from sessionizer.errors import ControlUnreachable
from sessionizer.home import clock as clocks
from sessionizer.home.clock import HOUR, MINUTE, epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.batch_log import BatchLog, OpenSessions
from sessionizer.spark.driver import lookups
from sessionizer.spark.driver.heartbeat_writer import HeartbeatWriter
from sessionizer.spark.driver.housekeeping import TIMEOUT_TABLE_EVERY_MS, Housekeeping
from sessionizer.spark.driver.lookups import Lookups
from sessionizer.spark.driver.options import Until
from sessionizer.spark.driver.prepared_query import PreparedQuery
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.file_source.unfit_files import UnreadableFiles
from sessionizer.spark.ingest.kafka_values.registry import SCHEMA_IDS_FILE, asked_ids
from sessionizer.spark.ingest.punctuation import ANNOUNCED_FILE, AnnouncedTimeouts
from sessionizer.spark.sinks.write import BatchCounts
from sessionizer.state.lineages.table_changes import NotifiedChanges
from support.places import known, opened
from support.streams.stage import Stage, clicks_spec

QUIET: Any = SimpleNamespace(status={"isTriggerActive": False, "isDataAvailable": False})


class Clock:
    """The monotonic clock (s) that housekeeping goes by."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def wait(self, seconds: float, then: Callable[[], object]) -> None:
        """Let so many seconds pass, then do something."""
        self.now += seconds
        then()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(
        clocks, "time", SimpleNamespace(monotonic_ns=lambda: int(clock.now * 10**9), time_ns=time.time_ns)
    )
    return clock


@pytest.fixture
def prepared(tmp_path: Path, clock: Clock) -> PreparedQuery:
    """A query of a stream with a table of timeouts, whose sources may be idle, with one open session."""
    stage = Stage.set_up(tmp_path, clicks_spec(client_timeouts_table="timeouts", idle_after="60 seconds"))
    home = stage.stream_home
    home.prepare()
    home.prepare_data()
    lineage = start_lineage(home)
    heartbeat = HeartbeatWriter(home, acquire(home, "a"))
    heartbeat.update(watermark_ms=1_000)
    open_sessions = OpenSessions(home.lineage(lineage).open_sessions)
    open_sessions.learn(0, [(0, OpenInGroup(sessions=1, latest_due_ms=HOUR, held_bytes=1, admitted=1, merged=True))])
    log = BatchLog(home.lineage(lineage).batches)
    found = SimpleNamespace(
        spark=None, spec=stage.spec(), home=home, lineage=lineage, heartbeat=heartbeat, open_sessions=open_sessions,
        batch_log=log,
    )  # fmt: skip
    return cast("PreparedQuery", found)


def be_away(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("kinds", [["read"], ["replace"], ["names"], ["read", "replace", "create", "names", "remove"]])
def test_records_that_are_away_for_a_while_end_no_driver(
    prepared: PreparedQuery, clock: Clock, monkeypatch: pytest.MonkeyPatch, kinds: list[str]
) -> None:
    """The lease says how long that may last."""
    timeouts = {"acme": 5_000}
    monkeypatch.setattr(punctuation, "read_timeout_table", lambda *_: dict(timeouts))
    housekeeping = Housekeeping(prepared, Until.STOPPED, lambda _: None)
    timeouts["acme"] = 6_000
    with monkeypatch.context() as away:
        for kind in kinds:
            away.setattr(Store, kind, be_away)
        housekeeping.do(QUIET)
        housekeeping.end()
    clock.wait(TIMEOUT_TABLE_EVERY_MS / 1000, lambda: housekeeping.do(QUIET))
    housekeeping.end()
    announced = ANNOUNCED_FILE.of(prepared.home, prepared.lineage).require()
    assert announced == AnnouncedTimeouts({"acme": 6_000})


RECORDS: dict[str, Callable[[StreamHome, str], object]] = {
    "open_sessions.json": lambda home, lineage: OpenSessions(home.lineage(lineage).open_sessions),
    "batches.json": lambda home, lineage: BatchLog(home.lineage(lineage).batches),
    "table_changes.json": lambda home, lineage: NotifiedChanges(home.lineage(lineage).table_changes),
    "unreadable_files.json": lambda home, lineage: UnreadableFiles.of(home, lineage).uris(),
    "schema_ids.json": lambda home, lineage: asked_ids(SCHEMA_IDS_FILE.of(home, lineage)),
    "announced_timeouts.json": lambda home, lineage: ANNOUNCED_FILE.of(home, lineage).require(),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_is_away_is_not_taken_for_none(
    prepared: PreparedQuery, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A driver would write it anew, and forget the files that it leaves out, or the batches that tables must have."""
    RECORDS[name](prepared.home, prepared.lineage)
    monkeypatch.setattr(Store, "read", be_away)
    with pytest.raises(ControlUnreachable, match=name):
        RECORDS[name](prepared.home, prepared.lineage)


def test_a_question_is_answered_beside_odd_files_and_after_the_wall_clock_was_set_back(
    prepared: PreparedQuery, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, watch = prepared.home, Lookups(prepared)
    folder = opened(cast("Path", QUESTION_FILE.folder(home)))
    folder.mkdir(exist_ok=True)
    (folder / "0 copy.json").write_text("{}")
    (folder / "0answer.x.json").mkdir()
    watch.look()
    monkeypatch.setattr(lookups, "epoch_ms", lambda: epoch_ms() - HOUR)
    QUESTION_FILE.of(home, "asked").write(Question(key="ann", at=epoch_ms() - HOUR))
    clock.wait(MINUTE / 1000, watch.look)
    watch.end()
    assert known(ANSWER_FILE.of(home, "asked").read()).key == "ann"


def test_the_history_has_the_sessions_of_batches_whose_reports_come_late(prepared: PreparedQuery) -> None:
    """While the store of records is slow, the reports of several batches wait."""
    heartbeat = prepared.heartbeat
    for batch_id, sessions in ((7, 3), (8, 40), (9, 500)):
        counts = BatchCounts(of_kind={rows.SESSIONS: sessions})
        heartbeat.note_written(batch_id, counts, prepared.open_sessions)
    for batch_id in (7, 8, 9):
        source = SimpleNamespace(
            metrics={}, endOffset="{}", latestOffset="{}", numInputRows=1, processedRowsPerSecond=1.0
        )
        watermark = datetime.fromtimestamp(1, UTC).isoformat()
        heartbeat.note_batch(
            cast("Any", SimpleNamespace(
                batchId=batch_id, sources=[source], eventTime={"watermark": watermark}, batchDuration=5,
                stateOperators=[SimpleNamespace(memoryUsedBytes=1, customMetrics={})], durationMs={},
            ))
        )  # fmt: skip
    heartbeat.history.flush(epoch_ms())
    samples = read_history(prepared.home, 0, epoch_ms()).samples
    assert (sum(each.sessions for each in samples), sum(each.batches for each in samples)) == (543, 3)
