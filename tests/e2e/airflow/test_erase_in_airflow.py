"""The DAG that erases people by a table of requests: a running Airflow, and two streams that Spark really drives."""

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sessionizer.control.records.erasure_record import read_erasures
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.erasing.records import find_left
from sessionizer_demo.local_airflow.api import wait_until
from support.pages.browser import chromium
from support.pages.page_user import BrowserUser
from support.processes.live_airflow import DRIVEN, Platform

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

REQUESTS = Path(tempfile.mkdtemp(prefix="requests-")) / "requests"
SETTINGS = DRIVEN | {
    "SESSIONIZER_ERASE_REQUESTS": str(REQUESTS),
    "SESSIONIZER_ERASE_SECRET": "a secret of this test",
}
STREAMS = ("clicks", "visits")
PEOPLE = ("someone-of-both-streams", "someone-of-clicks")
SCHEMA = pa.schema([
    ("key", pa.string()),
    ("stream", pa.string()),
    ("requested_at", pa.timestamp("us", "UTC")),
    ("done", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
])  # fmt: skip


class EraseUser(BrowserUser):
    """A user at the browser, who approves what the table asks for."""

    dag: ClassVar = "sessionizer.erase"

    def read_plans(self, run: str) -> str:
        return self.open_plan(run, "cannot be brought back")


def done() -> dict[str, set[str]]:
    rows = DeltaTable(str(REQUESTS)).to_pyarrow_table().to_pylist()
    return {row["key"]: set(dict(row["done"] or ())) for row in rows}


def ask(key: str, stream: str | None) -> None:
    row = {"key": key, "stream": stream, "requested_at": datetime.now(UTC), "done": None}
    write_deltalake(str(REQUESTS), pa.Table.from_pylist([row], SCHEMA), mode="append")


@pytest.fixture(scope="module")
def user(platform: Platform) -> Iterator[EraseUser]:
    platform.bring("first", [*PEOPLE, *(f"person-{number}" for number in range(20))])
    for stream in STREAMS:
        platform.api.unpause(f"{stream}.supervise")
    for stream in STREAMS:
        platform.of(stream).wait_for_driver(seconds=240)
    with chromium() as browser:
        found = EraseUser(platform, browser)
        browser.show_as(1280, 900)
        found.log_in()
        yield found


def test_two_streams_erase_what_one_approval_allows(user: EraseUser) -> None:
    ask(PEOPLE[0], None)
    ask(PEOPLE[1], "clicks")
    running = user.platform
    run = running.run_now(user.dag)
    told = user.read_plans(run)
    assert all(stream in told for stream in STREAMS)
    assert not any(person in told for person in PEOPLE)
    user.see("erase plans")
    before = {stream: running.of(stream).working_uid() for stream in STREAMS}
    assert user.answer_by_click(run) == "success"
    for stream, people in (("clicks", PEOPLE), ("visits", PEOPLE[:1])):
        home = running.of(stream).home
        (operation,) = read_operations(home)
        assert (operation.verb, operation.outcome) == ("erase", Ending.DONE)
        assert operation.by.startswith("admin")
        (noted,) = read_erasures(home)
        assert noted.swept_at is not None
        running.of(stream).wait_for_driver(other_than=before[stream], seconds=240)
        found = find_left(home, people, ())
        assert [(each.file, each.unreadable) for each in found] == [], stream
    assert done() == {PEOPLE[0]: {*STREAMS}, PEOPLE[1]: {"clicks"}}
    user.browser.open(f"{user.address}/dags/{user.dag}/runs/{run}")
    for stream in STREAMS:
        user.browser.wait_for_text(f"erase {stream}")
    user.see("erase run")
    user.browser.open(f"{user.address}/dags/{running.dag}/plugin/stream")
    user.browser.wait_for_text("Timeline")
    user.see("erase page")
    assert "Roll back" not in user.browser.text()


def test_nothing_is_asked_while_nobody_is_to_be_erased(user: EraseUser) -> None:
    run = user.platform.run_now(user.dag)
    assert user.wait_for_end(run, 300) == "success"
    assert user.states(run)["approve"] == "skipped"
    assert [len(read_operations(user.platform.of(stream).home)) for stream in STREAMS] == [1, 1]


def test_a_rejected_list_changes_nothing_and_is_asked_again(user: EraseUser) -> None:
    ask("person-3", "visits")
    for answer, end in (("Reject", 1), ("Approve", 2)):
        run = user.platform.run_now(user.dag)
        told = user.read_plans(run)
        assert "stream visits" in told
        assert "stream clicks" not in told
        assert user.answer_by_click(run, answer) == "success"
        assert len(read_operations(user.platform.of("visits").home)) == end
    wait_until(lambda: done()["person-3"] == {"visits"}, 10, "the moment in the table")
