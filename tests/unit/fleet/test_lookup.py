"""Lookups in real Delta tables, without Spark: the sessions of a key, the way of an event, refused rows by reason."""

import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sessionizer.control.records.driver_records import ANSWER_FILE, KEY_LIMIT, QUESTION_FILE, Answer
from sessionizer.errors import DamagedFile, InvalidSpec, LookupNotInstalled
from sessionizer.fleet.lookup import find as samples
from sessionizer.fleet.lookup.find import ask_driver, find_event, find_key, read_refused_rows
from sessionizer.fleet.lookup.table_scan import DataFile, TableScan
from sessionizer.home.control_store import record_names
from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed
from support.places import known
from support.processes.fabricated_platform import Platform

PATIENCE_S = 120.0
START = datetime(2026, 11, 26, tzinfo=UTC)
INSTANT = pa.timestamp("us", tz="UTC")
EVENTS = pa.list_(pa.struct([pa.field("event_time", INSTANT), pa.field("event_id", pa.string())]))


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def session(key: str, hour: int, *ids: str, reason: str = "gap") -> dict[str, Any]:
    return {
        "session_id": f"s-{key}-{hour}", "key": key, "client": "acme", "started_at": at(hour), "ended_at": at(hour + 1),
        "event_count": len(ids), "close_reason": reason, "lineage": "l", "batch_id": hour, "emitted_at": at(hour + 2),
        "events": [{"event_time": at(hour), "event_id": each} for each in ids],
    }  # fmt: skip


def refused(reason: str, raw: str, hour: int) -> dict[str, Any]:
    return {
        "reason": reason, "raw": raw, "source_position": f"c-0-{hour}", "lineage": "l", "batch_id": hour,
        "quarantined_at": at(hour),
    }  # fmt: skip


def append(location: str, rows: list[dict[str, Any]]) -> None:
    shape = {"started_at": INSTANT, "ended_at": INSTANT, "emitted_at": INSTANT, "quarantined_at": INSTANT}
    shape |= {"noticed_at": INSTANT, "event_time": INSTANT}
    fields = []
    for name, value in rows[0].items():
        kind = EVENTS if name == "events" else shape.get(name, pa.int64() if isinstance(value, int) else pa.string())
        fields.append(pa.field(name, kind))
    write_deltalake(location, pa.Table.from_pylist(rows, schema=pa.schema(fields)), mode="append")


@pytest.fixture(scope="module")
def locations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("tables")
    places = {name: str(root / name) for name in (SESSIONS, LATE_EVENTS, QUARANTINE)}
    for hour in range(9):
        append(places[SESSIONS], [session("alice", hour, f"a-{hour}"), session(f"u-{hour}", hour, f"b-{hour}", "c")])
    append(places[SESSIONS], [session("bob", 3, "x-1", "x-2", reason="max_events"), session("empty", 3)])
    append(
        places[QUARANTINE],
        [refused("malformed", f'{{"id": "q-{n}"', n) for n in range(5)] + [refused("null_key", '{"id": "z"}', 9)],
    )
    late = {
        "key": "carl", "event_id": "l-1", "event_time": at(1), "lineage": "l", "batch_id": 4, "noticed_at": at(5),
    }  # fmt: skip
    append(places[LATE_EVENTS], [late])
    return places


def test_the_last_closed_sessions_of_a_key_newest_first(locations: dict[str, str], reviewed: Reviewed) -> None:
    found = find_key("clicks", "alice", locations, within_s=PATIENCE_S)
    assert [row["session_id"] for row in found["closed"]] == [f"s-alice-{hour}" for hour in (8, 7, 6, 5, 4)]
    newest = found["closed"][0]
    assert (newest["ended_at"], newest["close_reason"]) == (int(at(9).timestamp() * 1000), "gap")
    assert found["complete"]
    reviewed(found["says"])


def test_a_key_that_no_table_has_and_one_that_came_late(locations: dict[str, str], reviewed: Reviewed) -> None:
    nobody = find_key("clicks", "nobody", locations, within_s=PATIENCE_S)
    assert nobody["closed"] == []
    reviewed(nobody["says"])
    found = find_key("clicks", "carl", locations, within_s=PATIENCE_S)
    assert [row["event_id"] for row in found["late"]] == ["l-1"]


@pytest.mark.parametrize(
    ("event", "where"),
    [
        ("x-2", [SESSIONS]),
        ("a-5", [SESSIONS]),
        ("q-3", [QUARANTINE]),
        ("l-1", [LATE_EVENTS]),
        ("not-there", []),
    ],
)
def test_where_an_event_went(locations: dict[str, str], event: str, where: list[str], reviewed: Reviewed) -> None:
    found = find_event("clicks", event, locations, within_s=PATIENCE_S)
    assert (found["where"], found["complete"]) == (where, True)
    reviewed(found["says"])


def test_a_table_that_is_not_there_and_one_without_events(tmp_path: Path, locations: dict[str, str]) -> None:
    nowhere = {name: str(tmp_path / name) for name in locations}
    assert find_event("clicks", "x", nowhere, within_s=PATIENCE_S)["complete"]
    row = session("alice", 1)
    del row["events"]
    append(nowhere[SESSIONS], [row])
    assert find_event("clicks", "x", nowhere, within_s=PATIENCE_S)["where"] == []
    assert len(find_key("clicks", "alice", nowhere, within_s=PATIENCE_S)["closed"]) == 1


def test_a_lookup_without_time_says_what_it_left_out(locations: dict[str, str], reviewed: Reviewed) -> None:
    found = find_event("clicks", "x-2", locations, within_s=-1)
    assert (found["where"], found["complete"]) == ([], False)
    assert found["tables"][SESSIONS] == {"files_read": 0, "files": 10, "complete": False}
    reviewed(found["says"])


def test_the_scan_ends_when_no_older_file_can_change_the_answer(locations: dict[str, str]) -> None:
    files: list[DataFile] = []

    def read(file: DataFile) -> pa.Table:
        files.append(file)
        return file.read(("key", "ended_at"), None)

    found = TableScan(locations[SESSIONS], "ended_at", time.monotonic() + 60).find(read, 2)
    assert [row["ended_at"] for row in found.rows] == [int(at(9).timestamp() * 1000)] * 2
    assert (len(files), found.is_complete) == (1, True)


def test_refused_rows_by_reason(locations: dict[str, str]) -> None:
    found = read_refused_rows("clicks", locations, int(at(1).timestamp() * 1000), within_s=PATIENCE_S)
    assert [(each["reason"], each["count"]) for each in found["reasons"]] == [("malformed", 4), ("null_key", 1)]
    worst = found["reasons"][0]
    assert [row["batch_id"] for row in worst["rows"]] == [4, 3, 2]
    assert worst["newest"] == int(at(4).timestamp() * 1000)
    assert worst["rows"][0]["raw"] == '{"id": "q-4"'
    assert len(worst["rows"]) == samples.ROWS


def test_without_the_packages_the_error_names_the_extra(
    locations: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(LookupNotInstalled):
        find_key("clicks", "alice", locations, within_s=PATIENCE_S)


OPEN = {"event_count": 3, "would_end_at": "2026-11-26T10:00:00.000Z", "would_close_reason": "gap", "events": []}


def answering(home: StreamHome, answer: Answer) -> threading.Thread:
    def reply() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for name in record_names(QUESTION_FILE.folder(home), "*.json"):
                ANSWER_FILE.of(home, name.removesuffix(".json")).write(answer)
                return
            time.sleep(0.01)

    thread = threading.Thread(target=reply)
    thread.start()
    return thread


def test_the_driver_answers_and_no_file_stays(platform: Platform) -> None:
    _, home = platform.add_driven("visits")
    thread = answering(home, Answer(at=1, key="alice", batch_id=7, key_group=3, sessions=(OPEN,)))
    found = ask_driver(home, "alice", within_s=PATIENCE_S)
    thread.join()
    assert found is not None
    assert (found["batch_id"], found["sessions"][0]["event_count"]) == (7, 3)
    assert record_names(QUESTION_FILE.folder(home)) == []


def test_a_driver_that_does_not_answer_is_busy_and_leaves_no_file(platform: Platform, tmp_path: Path) -> None:
    _, home = platform.add_driven("visits")
    busy = known(ask_driver(home, "alice", within_s=0.05))
    assert "busy" in str(busy["error"])
    nowhere = {name: str(tmp_path / name) for name in ("sessions", "late_events")}
    assert "no driver" not in str(find_key("visits", "alice", nowhere, busy, within_s=60)["says"])
    assert record_names(QUESTION_FILE.folder(home)) == []


def test_without_a_driver_or_with_a_key_too_long_nothing_is_asked(platform: Platform) -> None:
    _, home = platform.add_driven("visits")
    assert ask_driver(home, "k" * (KEY_LIMIT + 1)) is None
    platform.fall_silent("visits", since=1)
    assert ask_driver(home, "alice") is None
    assert not QUESTION_FILE.folder(home).exists()


def test_the_answer_about_a_key_says_when_its_session_closes(tmp_path: Path, reviewed: Reviewed) -> None:
    nowhere = {name: str(tmp_path / name) for name in ("sessions", "late_events")}
    for answer in (
        Answer(at=1, key="a", batch_id=7, sessions=(OPEN,)),
        Answer(at=1, key="a", batch_id=7, sessions=({**OPEN, "would_end_at": None},)),
        Answer(at=1, key="a", batch_id=7),
        Answer(at=1, key="a", error="its batch is gone"),
    ):
        reviewed(find_key("visits", "a", nowhere, answer.to_json(), within_s=60)["says"])


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_data_file_is_named_at_once(tmp_path: Path) -> None:
    table = tmp_path / QUARANTINE
    append(str(table), [refused("malformed", "x", 1)])
    (file,) = table.glob("*.parquet")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(DamagedFile) as damaged:
        find_event(
            "clicks", "e1", {name: str(tmp_path / name) for name in (SESSIONS, QUARANTINE, LATE_EVENTS)}, within_s=30
        )
    assert damaged.value.path == str(file)


def test_rows_of_another_writer_without_an_instant_or_a_reason_are_found(tmp_path: Path) -> None:
    places = {name: str(tmp_path / name) for name in (SESSIONS, LATE_EVENTS, QUARANTINE)}
    late = {"key": "carl", "event_id": "l-1", "event_time": at(1), "lineage": "l", "batch_id": 4, "noticed_at": at(5)}
    append(places[LATE_EVENTS], [late, late | {"noticed_at": None}])
    found = find_key("clicks", "carl", places, within_s=PATIENCE_S)
    assert [row["noticed_at"] is None for row in found["late"]] == [False, True]
    append(places[QUARANTINE], [refused("malformed", "x", 1), refused("", "y", 2) | {"reason": None}])
    reasons = read_refused_rows("clicks", places, 0, within_s=PATIENCE_S)["reasons"]
    assert {each["reason"]: [row["raw"] for row in each["rows"]] for each in reasons} == {
        "malformed": ["x"], "unknown": ["y"],
    }  # fmt: skip


def test_bytes_of_a_command_line_that_are_no_text_are_refused(locations: dict[str, str]) -> None:
    for find in (find_key, find_event):
        with pytest.raises(InvalidSpec):
            find("clicks", os.fsdecode(b"caf\xe9"), locations)
