"""The page without Airflow: who gets in, and what the documents hold."""

import json
import socket
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sessionizer.control.history.files import KEPT_MS, History, HistoryWriter, Mark, MarkKind, add_mark
from sessionizer.control.history.sample import SAMPLE_MS, Sample, Straggler, StragglerKind, bucket_ms, minute_of
from sessionizer.control.records.driver_records import (
    HEARTBEAT_FILE,
    POSITIONS_FILE,
    HeavyKey,
    PartitionPosition,
    PositionsRecord,
)
from sessionizer.control.records.operation_record import Ending, OperationRecord
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord
from sessionizer.control.records.supervision_records import (
    PAUSE_FILE,
    SUPERVISION_FILE,
    DesiredState,
    PauseRecord,
    SupervisionRecord,
    write_desired,
)
from sessionizer.deployment.differences import Difference
from sessionizer.deployment.waiting import WaitingUpgrade
from sessionizer.fleet.lookup.find import find_event, find_key, read_refused_rows
from sessionizer.fleet.stream_view import StreamView
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS
from sessionizer.home.stream_home import SavepointHome
from sessionizer.lineage.active import begin_drain, end_drain, start_lineage
from sessionizer.page.app import COOKIE, listen
from sessionizer.page.reader import POINTS, PageReader, Past, estimate_catch_up, stream_document
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin
from sessionizer.state.savepoints.manifest import Manifest, read_manifest
from sessionizer.stream_spec.effect import Verdict
from support.checkpoints.fabricated_checkpoints import fabricate
from support.pages.page_alone import ENTERED, TOKEN, ask
from support.places import known, mounted
from support.processes.fabricated_fleet import STEADY, work
from support.processes.fabricated_platform import SPEC, Platform
from support.verbs.begun_restore import write_operation


@pytest.mark.parametrize("path", ["/", "/assets/page.js", "/api/fleet", "/api/streams/clicks.supervise", "/?token=no"])
@pytest.mark.parametrize("headers", [{}, {"cookie": f"{COOKIE}=no"}, {"authorization": "Bearer no"}])
def test_nobody_gets_in_without_the_token(path: str, headers: dict[str, str], platform: Platform) -> None:
    assert ask(platform, path, headers=headers).status_code == 401


def test_the_token_of_the_address_becomes_a_cookie(platform: Platform) -> None:
    answer = ask(platform, f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert TOKEN in cookie
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_the_token_lets_in(platform: Platform) -> None:
    assert ask(platform, "/", headers=ENTERED).status_code == 200
    assert ask(platform, "/api/fleet", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_foreign_name_that_leads_to_this_machine_is_refused(platform: Platform) -> None:
    assert ask(platform, "/api/fleet", host="evil.example", headers=ENTERED).status_code == 400


def test_a_row_of_the_fleet(platform: Platform) -> None:
    _, home = platform.add_driven(
        "clicks", batch_id=7, rows_per_second=12.5, open_keys=9, spark_ui="javascript:alert(1)"
    )
    now = epoch_ms()
    for ago, kind in ((40, MarkKind.CRASH), (30, MarkKind.START), (20, MarkKind.SAVEPOINT)):
        add_mark(home, Mark(at=now - ago, kind=kind))
    (row,) = ask(platform, "/api/fleet", headers=ENTERED).json()["streams"]
    assert (row["stream"], row["health"]["word"], row["state"]) == ("clicks", "healthy", "RUNNING")
    assert (row["rate"], row["open"], row["restarts"], row["saved_at"]) == (12.5, 9, 1, now - 20)
    assert row["spark_ui"] is None, "an address that is a script is none"


def test_a_row_has_the_course_of_its_rate_its_last_change_and_its_next_savepoint(platform: Platform) -> None:
    home = platform.add("clicks", f"{SPEC.format(name='clicks')}savepoints: {{every: 1 hour}}\n")
    platform.drive("clicks", batch_id=7)
    now = epoch_ms()
    history = HistoryWriter(home)
    for ago in range(13, 0, -1):  # not of the oldest minute, which may be over when they are read
        history.add(Sample(at=now - ago * SAMPLE_MS, batches=1, rows=60 * ago, source_lag=1_000 * ago))
    for ago, kind, what in (
        (9, MarkKind.COMMAND, "rescale"),
        (5, MarkKind.COMMAND, "upgrade"),
        (3, MarkKind.SAVEPOINT, ""),
    ):
        add_mark(home, Mark(at=now - ago, kind=kind, what=what, by="olga"))
    (row,) = ask(platform, "/api/fleet", headers=ENTERED).json()["streams"]
    assert row["rates"] == [0.0, *(float(ago) for ago in range(13, 0, -1))]
    assert (row["changed"]["what"], row["changed"]["at"], row["changed"]["by"]) == ("upgrade", now - 5, "olga")
    assert row["save_due_at"] == row["saved_at"] + 3_600_000
    assert row["trigger_ms"] == 300_000
    assert row["catch_up_ms"] == SAMPLE_MS, "1,000 events are behind, and it gains 1,000 a minute"


def lagging(*behind: int | None) -> list[Sample]:
    return [Sample(at=minute * SAMPLE_MS, rows=10, source_lag=each) for minute, each in enumerate(behind)]


@pytest.mark.parametrize(
    ("behind", "minutes"),
    [
        ((), None),
        ((900, 600), None),
        ((900, 600, 300), 1),
        ((900, None, 600, None, 300), 2),
        ((300, 600, 900), None),
        ((300, 300, 300), None),
        ((90, 50, 10), None),
        ((None, None, None), None),
    ],
)
def test_the_time_to_catch_up(behind: tuple[int | None, ...], minutes: int | None) -> None:
    assert estimate_catch_up(lagging(*behind)) == (None if minutes is None else minutes * SAMPLE_MS)


def test_a_row_without_figures_has_no_course(platform: Platform) -> None:
    platform.add_driven("clicks", batch_id=7)
    (row,) = ask(platform, "/api/fleet", headers=ENTERED).json()["streams"]
    assert (row["rates"], row["changed"], row["save_due_at"], row["catch_up_ms"]) == ([], None, None, None)


@pytest.mark.parametrize("age", [3, 40, 400])
def test_a_chart_begins_with_the_stream(age: int, platform: Platform) -> None:
    _, home = platform.add_driven("clicks", batch_id=7)
    now = epoch_ms()
    add_mark(home, Mark(at=now - age * SAMPLE_MS, kind=MarkKind.START))
    HistoryWriter(home).add(Sample(at=now - age * SAMPLE_MS + 1, batches=1, rows=5))
    told = ask(platform, "/api/streams/clicks.supervise?span=21600000", headers=ENTERED).json()
    shown = min(max(age, 10), 360)
    begin = {3: told["at"] - 10 * SAMPLE_MS, 40: now - 40 * SAMPLE_MS, 400: told["at"] - 360 * SAMPLE_MS}[age]
    assert told["from"] == begin
    assert told["every"] == bucket_ms(shown * SAMPLE_MS, POINTS)
    assert told["span"] == 21_600_000


def test_differences_that_a_user_must_accept_are_named() -> None:
    gap, key = (
        Difference(name, "changed", 1, 2, verdict, reason="open sessions split")
        for name, verdict in (("rules.gap_timeout", Verdict.IN_PLACE), ("mapping.key", Verdict.PARTIAL))
    )
    view = StreamView(name="clicks", waiting=WaitingUpgrade(stream="clicks", digest="d", differences=(key, gap)))
    told = stream_document(view, Past(history=History(), marks=[], savepoints=[], lineages={}), 9, SAMPLE_MS)
    found = [(each["name"], each["verdict"], each["must_be_accepted"]) for each in told["differences"]]
    assert found == [("mapping.key", "partial", True), ("rules.gap_timeout", "in place", False)]


def test_savepoints_are_listed_whose_marks_are_over(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    _, home = platform.add_driven("clicks", batch_id=7)
    made, read = known(read_manifest(fabricate(home.savepoints, "old"))), list[str]()
    for name in ("new", "begun", "removed"):
        mounted(home.savepoints / name).mkdir(parents=True)
    for name, at in (("new", epoch_ms()), ("removed", epoch_ms())):
        add_mark(home, Mark(kind=MarkKind.SAVEPOINT, at=at, what="native", savepoint=name, batch_id=7, bytes=9))
    mounted(home.savepoints / "removed").rmdir()

    def count(savepoint: SavepointHome) -> Manifest | None:
        read.append(savepoint.id)
        return read_manifest(savepoint)

    monkeypatch.setattr("sessionizer.page.reader.read_manifest", count)
    reader = PageReader(platform.home, platform.streams)
    for _ in range(2):
        told = known(reader.stream("clicks", SAMPLE_MS))
        found = [
            tuple(each[name] for name in ("savepoint", "what", "batch_id", "bytes")) for each in told["savepoints"]
        ]
        assert found == [("old", "canonical", made.batch_id, made.bytes), ("new", "native", 7, 9)]
    assert sorted(read) == ["begun", "begun", "old"], "a manifest is read once, unless it is not there yet"


def test_a_broken_spec_and_no_stream_at_all(platform: Platform) -> None:
    assert ask(platform, "/api/fleet", headers=ENTERED).json()["streams"] == []
    platform.add("broken", "name: broken\n")
    (row,) = ask(platform, "/api/fleet", headers=ENTERED).json()["streams"]
    assert (row["state"], row["health"]["rule"]) == ("INVALID", "invalid_spec")
    assert ask(platform, "/api/streams/broken.supervise", headers=ENTERED).json()["row"]["stream"] == "broken"


def test_a_folder_that_is_gone_is_an_error_that_the_page_can_show(platform: Platform) -> None:
    platform.streams.rmdir()
    answer = ask(platform, "/api/fleet", headers=ENTERED)
    assert answer.status_code == 503
    assert set(answer.json()) == {"error", "message"}


def test_the_document_of_a_stream(platform: Platform) -> None:
    _, home = platform.add_driven("clicks", batch_id=7)
    now = epoch_ms()
    HistoryWriter(home).add(Sample(at=now, batches=1, rows=5, phases={"plan": 3, "write": 4}, late=2))
    add_mark(home, Mark(at=now - 2 * SAMPLE_MS, kind=MarkKind.COMMAND, what="rescale", by="olga"))
    add_mark(home, Mark(at=now - 30 * 3_600_000, kind=MarkKind.SAVEPOINT, savepoint="s1"))
    add_mark(home, Mark(at=now - 31 * 3_600_000, kind=MarkKind.SAVEPOINT, savepoint="removed"))
    mounted(home.savepoints / "s1").mkdir(parents=True)
    told = ask(platform, "/api/streams/clicks.supervise?span=3600000", headers=ENTERED).json()
    (point,) = [dict(zip(told["history"]["fields"], row, strict=True)) for row in told["history"]["rows"]]
    assert [(phase, point[phase]) for phase in told["history"]["phases"]] == [
        ("plan", 3), ("evaluate", 0), ("write", 4), ("commit", 0),
    ]  # fmt: skip
    assert (point["at"], point["rows"], point["plan"], point["write"], point["late"]) == (minute_of(now), 5, 3, 4, 2)
    assert [mark["what"] for mark in told["marks"]] == ["rescale"], "the older savepoint is out of the span"
    assert [mark["savepoint"] for mark in told["savepoints"]] == ["s1"], "but can be gone back to"
    assert (told["may"], told["canary"]) == ({}, False)
    assert told["host"] == {"name": "alone"}


def test_what_a_restore_deleted_and_by_which_user(platform: Platform) -> None:
    _, home = platform.add_driven("clicks", batch_id=7, lineage="two")
    for name, origin in {
        "one": None,
        "left": Origin("rescale", 1, parent="one", batch_id=9),
        "two": Origin("restore", 2, parent="one", batch_id=5, savepoint="s1"),
    }.items():
        mounted(home.lineage_records / name).mkdir(parents=True, exist_ok=True)
        if origin is not None:
            ORIGIN_FILE.of(home, name).write(origin)
    record = OperationRecord(
        id="20261126T000000-000000", verb="restore", stream="clicks", by="olga", digest="d", savepoint="s1",
        lineage_from="one", batch_from=9, wanted=DesiredState.RUNNING, begun_at=2, step_at=4, outcome=Ending.DONE,
    )  # fmt: skip
    write_operation(home, record)
    told = ask(platform, "/api/streams/clicks.supervise", headers=ENTERED).json()
    assert {each["lineage"]: each["undone_after"] for each in told["lineages"]} == {"one": 5, "left": -1, "two": None}
    assert [(each["verb"], each["by"], each["outcome"], each["ended_at"]) for each in told["operations"]] == [
        ("restore", "olga", "done", 4)
    ]


def test_a_reader_who_has_the_earlier_figures_gets_the_newest(platform: Platform) -> None:
    home = platform.add("clicks")
    now = epoch_ms()
    writer = HistoryWriter(home)
    for minutes in (9, 5, 0):
        writer.add(Sample(at=now - minutes * SAMPLE_MS, batches=1, rows=minutes))
    writer.flush(now)
    add_mark(home, Mark(at=now - 7 * SAMPLE_MS, kind=MarkKind.START))
    begin = minute_of(now - 5 * SAMPLE_MS)
    told = ask(platform, f"/api/streams/clicks.supervise?span=3600000&begin={begin}", headers=ENTERED).json()
    assert [row[0] for row in told["history"]["rows"]] == [begin, minute_of(now)]
    assert len(told["marks"]) == 1, "marks are of the whole span"


@pytest.mark.parametrize("span", ["0", "-1", "x", str(KEPT_MS + 1)])
def test_a_span_that_is_none(span: str, platform: Platform) -> None:
    platform.add("clicks")
    assert ask(platform, f"/api/streams/clicks.supervise?span={span}", headers=ENTERED).status_code == 422


@pytest.mark.parametrize("span", [60_000, 3_600_000, 21_600_000, 86_400_000, KEPT_MS])
def test_a_chart_has_no_more_points_than_it_can_show(span: int) -> None:
    assert bucket_ms(span, POINTS) % SAMPLE_MS == 0
    assert span / bucket_ms(span, POINTS) <= POINTS * 1.5


def test_a_refresh_of_50_streams_is_small(platform: Platform) -> None:
    for number in range(50):
        name = f"stream_{number}"
        platform.add(name)
        platform.drive(
            name, batch_id=number, rows_per_second=1234.5, open_keys=99_999, lineage="20261126T003357-79b894"
        )
    assert len(ask(platform, "/api/fleet", headers=ENTERED).content) < 50_000


def test_a_refresh_of_a_stream_with_a_week_of_history_is_small(platform: Platform) -> None:
    now = epoch_ms()
    platform.add("clicks")
    work(platform, "clicks", STEADY, now)
    whole, newest = (
        len(ask(platform, f"/api/streams/clicks.supervise?span={KEPT_MS}&begin={begin}", headers=ENTERED).content)
        for begin in (0, now - 60_000)
    )
    assert newest < 10_000 < whole < 150_000


def test_only_the_loopback_interface_is_listened_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def create_server(address: tuple[str, int]) -> socket.socket:
        asked.append(address)
        return socket.socket()

    monkeypatch.setattr(socket, "create_server", create_server)
    listen(0).close()
    assert asked == [("127.0.0.1", 0)]


@pytest.mark.parametrize(
    ("noted", "answer", "rule"),
    [
        (None, True, "paused"),
        (True, False, "working"),
        (True, None, "paused"),
        (False, True, "paused"),
        (None, None, "working"),
    ],
)
def test_what_the_host_says_now_counts(platform: Platform, noted: bool | None, answer: bool | None, rule: str) -> None:
    _, home = platform.add_driven("visits")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 60_000, log="logs/driver.log"))
    if noted is not None:
        PAUSE_FILE.of(home).write(PauseRecord(paused=noted, at=epoch_ms()))
    reader = PageReader(platform.home, platform.streams, lambda _: {} if answer is None else {"visits": answer})
    (row,) = reader.fleet()["streams"]
    assert row["health"]["rule"] == rule
    document = known(reader.stream("visits", 3_600_000))
    assert document["row"]["health"] == row["health"]


def test_a_drained_stream_needs_no_supervisor(platform: Platform) -> None:
    """Its supervisor gave up and paused its DAG, because another driver was refused."""
    lease, home = platform.add_driven("visits")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 60_000, log="logs/driver.log"))
    lineage = start_lineage(home)
    begin_drain(home, lineage)
    end_drain(home, lineage)
    lease.release()
    SUPERVISION_FILE.of(home).write(
        SupervisionRecord(given_up=True, last_failure="refused", last_failure_ms=epoch_ms())
    )
    write_desired(home, DesiredState.RUNNING, by="olga", why="")
    (row,) = PageReader(platform.home, platform.streams, lambda _: {"visits": True}).fleet()["streams"]
    assert (row["health"]["word"], row["health"]["rule"]) == ("healthy", "drained")


ROUTES = ("find", "live", "log", "refused")
INSTANTS = {"started_at", "ended_at", "emitted_at", "quarantined_at", "noticed_at", "event_time"}
NOW = datetime.now(UTC)
SESSION = {
    "session_id": "s1", "key": "ann é", "client": "acme", "started_at": NOW, "ended_at": NOW, "event_count": 2,
    "close_reason": "gap", "lineage": "l", "batch_id": 3, "emitted_at": NOW,
}  # fmt: skip
REFUSED = {
    "reason": "malformed", "raw": '{"id": "e-1"', "source_position": "c-0-7", "lineage": "l", "batch_id": 3,
    "quarantined_at": NOW,
}  # fmt: skip
LATE = {"key": "carl", "event_id": "l-1", "event_time": NOW, "lineage": "l", "batch_id": 4, "noticed_at": NOW}


@pytest.fixture
def stream(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Platform:
    for find in (find_key, find_event, read_refused_rows):
        monkeypatch.setattr(f"sessionizer.page.app.{find.__name__}", partial(find, within_s=60))
    _, home = platform.add_driven("clicks", batch_id=7, lineage="l", open_ages={"1m": 7}, open_keys=7)
    for table, row in {SESSIONS: SESSION, QUARANTINE: REFUSED, LATE_EVENTS: LATE}.items():
        kinds = {name: pa.timestamp("us", tz="UTC") if name in INSTANTS else None for name in row}
        columns = {name: pa.array([value], type=kinds[name]) for name, value in row.items()}
        write_deltalake(home.table_locations(None)[table], pa.table(columns))
    return platform


def answer(platform: Platform, route: str, **headers: str) -> Any:
    return ask(platform, f"/api/streams/clicks.supervise/{route}", headers={**ENTERED, **headers}).json()


def test_the_last_sessions_of_a_key_that_is_no_ascii(stream: Platform) -> None:
    stream.fall_silent("clicks", since=epoch_ms() - 3_600_000)  # so that no driver is asked, and waited for
    found = answer(stream, "find", **{"x-key": quote("ann é")})
    assert found["open"] is None
    assert [(row["session_id"], row["close_reason"]) for row in found["closed"]] == [("s1", "gap")]


def test_the_way_of_an_event(stream: Platform) -> None:
    assert answer(stream, "find", **{"x-event": "e-1"})["where"] == ["quarantine"]
    assert answer(stream, "find", **{"x-event": "l-1"})["where"] == ["late_events"]


def test_a_lookup_of_both_or_of_nothing(stream: Platform) -> None:
    for headers in ({}, {"x-key": "a", "x-event": "b"}):
        path = "/api/streams/clicks.supervise/find"
        assert ask(stream, path, headers={**ENTERED, **headers}).status_code == 422


def test_refused_rows_by_reason(stream: Platform) -> None:
    (told,) = answer(stream, "refused")["reasons"]
    assert (told["reason"], told["count"], told["rows"][0]["source_position"]) == ("malformed", 1, "c-0-7")


def test_live_figures_of_the_records(stream: Platform) -> None:
    assert answer(stream, "live") == {"open_ages": {"1m": 7}, "heaviest_keys": [], "straggler": None, "positions": None}
    home = stream.add("clicks")
    straggler = Straggler(kind=StragglerKind.KEY, name="bot", since=1, batches=2, group=7)
    keys = (HeavyKey(key="bot", group=7, events=90),)
    beat = known(HEARTBEAT_FILE.of(home).require())
    HEARTBEAT_FILE.of(home).write(replace(beat, heaviest_keys=keys, straggler=straggler))
    POSITIONS_FILE.of(home).write(
        PositionsRecord(at=9, partitions=(PartitionPosition(name="c-0", offset=5, oldest=2),))
    )
    found = answer(stream, "live")
    assert (found["open_ages"], found["heaviest_keys"][0]["events"]) == ({"1m": 7}, 90)
    assert (found["straggler"]["name"], found["positions"]["partitions"][0]["left"]) == ("bot", 3)


def test_live_figures_of_a_stream_that_never_ran(stream: Platform) -> None:
    stream.add("visits")
    path = "/api/streams/visits.supervise/live"
    assert ask(stream, path, headers=ENTERED).json() == {
        "open_ages": {}, "heaviest_keys": [], "straggler": None, "positions": None,
    }  # fmt: skip


def test_the_log_of_the_newest_driver_without_credentials(stream: Platform) -> None:
    home = stream.add("clicks")
    assert answer(stream, "log") == {"path": None, "lines": []}
    log = mounted(home.logs / "driver.one.log")
    log.parent.mkdir(exist_ok=True)
    log.write_text("it began\npassword=hunter2\n")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="one", log=str(log), at=epoch_ms()))
    told = answer(stream, "log")
    assert told["path"] == str(log)
    assert told["lines"][0] == "it began"
    assert "hunter2" not in json.dumps(told)
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="one", log="/etc/passwd", at=epoch_ms()))
    assert answer(stream, "log")["lines"] == [], "a record may not name another file of the machine"


@pytest.mark.parametrize("route", ROUTES)
def test_an_unknown_stream(route: str, platform: Platform) -> None:
    path = f"/api/streams/nothing.supervise/{route}"
    assert ask(platform, path, headers={**ENTERED, "x-key": "a"}).status_code == 404


@pytest.mark.parametrize("route", ROUTES)
def test_no_rows_without_the_token(route: str, stream: Platform) -> None:
    refused = ask(stream, f"/api/streams/clicks.supervise/{route}", headers={"x-key": "a"})
    assert (refused.status_code, "e-1" in refused.text) == (401, False)
