"""A night at 3 a.m., on the Streams page of a running Airflow: by clicks alone, over a stream that Spark really drives.

A bad release of the spec cuts sessions too short. The axis shows it, a user restores the savepoint from before it, and
the tables are what they would have been without it. Before that: the rights of each user, and who is silent.
"""

from collections.abc import Iterator

import pytest

from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer_demo.local_airflow.api import wait_until
from support.pages.page_user import CLICKS, PAGE_SETTINGS, PAGE_SPEC, PageUser, page_user
from support.processes.file_notifier import told
from support.processes.live_airflow import Platform

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

SPEC, SETTINGS = PAGE_SPEC, PAGE_SETTINGS
BAD_RELEASE = {**CLICKS, "mapping": {**CLICKS["mapping"], "timeout_ms": "1000L"}}
FILES, BEFORE, DURING = 6, 3, 2
"""Files of the feed, those before the release, and those that the bad release reads."""


@pytest.fixture(scope="module")
def night(platform: Platform) -> Iterator[PageUser]:
    with page_user(platform, FILES, BEFORE) as found:
        assert found.wait_for_end(found.ask("savepoint", why="before the release")) == "success"
        found.browser.open(f"{found.address}/streams-page/")
        found.browser.wait_for_text("2 streams")
        yield found


def test_an_alert_is_tried_from_the_page(night: PageUser) -> None:
    night.browser.ask("location.hash = '#/clicks'")
    night.browser.click("button", "Test the alerts")
    night.browser.click("dialog button[type=submit]")
    wait_until(lambda: "test" in {each["kind"] for each in told(night.platform.told)}, 90, "a test message")
    (alert,) = [each for each in told(night.platform.told) if each["kind"] == "test"]
    assert "admin" in alert["reason"]
    night.browser.wait_for_text("test alert: done")


def test_a_bad_release_is_taken_back_by_clicks(night: PageUser) -> None:
    platform = night.platform
    uid = platform.wait_for_driver()
    night.write_spec(BAD_RELEASE)
    platform.api.call("POST", "/api/v2/dags/clicks.start/dagRuns", {"logical_date": None, "conf": {"apply": True}})
    platform.wait_for_launch(other_than=uid, seconds=240)
    night.feed(DURING)
    night.browser.ask("sessionStorage.setItem('span', 3600000)")
    night.browser.open(f"{night.address}/streams-page/")
    night.browser.wait_for_text("2 streams")
    night.click("a", "clicks")
    night.browser.wait_for_text("Sessions closed")
    night.see("night-the-axis-shows-it")
    night.click(".point.savepoint")
    night.click("button", "Restore to this savepoint …")
    night.click("button", "Make the plan")
    night.read_plan()
    night.see("night-the-plan")
    night.click_answer("Approve", "carry out: done")
    night.see("night-it-is-over")
    assert night.clicks <= 6
    (record,) = read_operations(platform.home)
    assert (record.verb, record.by, record.outcome) == ("restore", "admin (Airflow)", Ending.DONE)
    night.feed(FILES - BEFORE - DURING)


def test_the_tables_are_as_without_the_bad_release(night: PageUser) -> None:
    night.platform.drain(night.stage)
    night.assert_exact()
