"""Routes that show rows, keys and logs of a stream, read when a user asks for them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sessionizer.control.history.straggler import Straggler, StragglerKind
from sessionizer.control.records.driver_records import (
    HEARTBEAT_FILE,
    POSITIONS_FILE,
    HeavyKey,
    PartitionPosition,
    PositionsRecord,
)
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS
from support.pages.page_alone import ENTERED, ask
from support.places import mounted

if TYPE_CHECKING:
    from support.processes.fabricated_platform import Platform

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
def stream(platform: Platform) -> Platform:
    home = platform.add("clicks")
    platform.drive("clicks", batch_id=7, lineage="l", open_ages={"1m": 7}, open_keys=7)
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
    beat = HEARTBEAT_FILE.of(home).require()
    assert beat is not None
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
