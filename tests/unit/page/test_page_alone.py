"""The page without Airflow: who gets in, and what the documents hold."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.history.files import KEPT_MS
from sessionizer.control.history.mark import Mark, MarkKind, add_mark
from sessionizer.control.history.sample import SAMPLE_MS, Sample, minute_of
from sessionizer.control.history.writer import HistoryWriter
from sessionizer.control.records.desired_state import DesiredState
from sessionizer.control.records.operation_record import Ending, OperationRecord, write_operation
from sessionizer.home.clock import epoch_ms
from sessionizer.page.alone import COOKIE, listen
from sessionizer.page.documents import POINTS, bucket_ms
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin
from support.pages.page_alone import ENTERED, TOKEN, ask
from support.places import mounted
from support.processes.fabricated_fleet import STEADY, work

if TYPE_CHECKING:
    from support.processes.fabricated_platform import Platform


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
    home = platform.add("clicks")
    platform.drive("clicks", batch_id=7, rows_per_second=12.5, open_keys=9, spark_ui="javascript:alert(1)")
    now = epoch_ms()
    for ago, kind in ((40, MarkKind.CRASH), (30, MarkKind.START), (20, MarkKind.SAVEPOINT)):
        add_mark(home, Mark(at=now - ago, kind=kind))
    (row,) = ask(platform, "/api/fleet", headers=ENTERED).json()["streams"]
    assert (row["stream"], row["health"]["word"], row["state"]) == ("clicks", "healthy", "RUNNING")
    assert (row["rate"], row["open"], row["restarts"], row["saved_at"]) == (12.5, 9, 1, now - 20)
    assert row["spark_ui"] is None, "an address that is a script is none"


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
    home = platform.add("clicks")
    platform.drive("clicks", batch_id=7)
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
    home = platform.add("clicks")
    platform.drive("clicks", batch_id=7, lineage="two")
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
    assert bucket_ms(span) % SAMPLE_MS == 0
    assert span / bucket_ms(span) <= POINTS * 1.5


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
