"""Waves of a list that a user approves once: order, at most two at once, none after two failures, and mended.

Each stream is driven by Spark. Two of the edits name a table that is not there yet, so their runs fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from sessionizer.control.records.operation_record import Ending, read_operations
from support.pages.browser import chromium
from support.pages.page_user import BrowserUser, UpgradeForm
from support.places import MAIN
from support.processes.live_airflow import OUR_DAGS, Platform

pytestmark = [pytest.mark.long, pytest.mark.timeout(3_600)]

STREAMS = {"clicks": 0, "carts": 1, "taps": 1, "visits": 1, "wares": 2}
"""By name: the wave."""
BAD = ("taps", "visits")
SPEC = """
name: {name}
source: {{format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}}
mapping: {{key: k, client: k, event_time: t, event_id: i}}
trigger_interval: 5 seconds
key_groups: 2
"""
AT_ONCE, FAILURES = 2, 2
SETTINGS = OUR_DAGS | {
    "SESSIONIZER_APPLICATION": MAIN,
    "SESSIONIZER_STALE_LIMIT": "2 minutes",
    "SESSIONIZER_WATCH_LEASE": "5 minutes",
    "SESSIONIZER_APPROVAL_PATIENCE": "2 hours",
    "SESSIONIZER_UPGRADES_AT_ONCE": str(AT_ONCE),
    "SESSIONIZER_UPGRADES_STOP_AFTER": str(FAILURES),
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
}
WAITS, RUNS, DONE, FAILED = "waits", "runs", "done", "failed"
STATE = "[e.querySelector('a').innerText, e.querySelector('.tag').innerText]"
OVERFLOW = "e.scrollWidth - e.ownerDocument.defaultView.innerWidth"


@dataclass
class ListUser(BrowserUser):
    """A user who approves a list, and looks at the page of the fleet."""

    dag: ClassVar = "sessionizer.upgrade_all"
    seen: list[dict[str, str]] = field(default_factory=list)

    def states_shown(self) -> dict[str, str]:
        """Read the state of each stream on the page, and keep it."""
        self.seen.append(dict(self.browser.says(".wave li", STATE)))
        return self.seen[-1]

    def follow(self, until: Callable[[dict[str, str]], bool], seconds: int = 1_200) -> None:
        """Have the maintenance begin what may begin, until the page shows that."""
        deadline, asked = time.monotonic() + seconds, ""
        while not until(self.states_shown()):
            assert time.monotonic() < deadline, self.seen[-1]
            runs = {str(run["dag_run_id"]): run["state"] for run in self.platform.runs("sessionizer.maintenance")}
            if runs.get(asked) in {None, "success"}:
                asked = self.platform.run_now("sessionizer.maintenance")
            time.sleep(2)

    def see_at_each_width(self, name: str) -> None:
        for width, height in ((375, 800), (768, 1024), (1440, 900)):
            self.browser.show_as(width, height)
            assert self.browser.says("html", OVERFLOW)[-1] <= 0, width
            self.see(f"waves {name} {width}")
        self.browser.show_as(1280, 900)


@pytest.fixture(scope="module")
def user(platform: Platform) -> Iterator[ListUser]:
    platform.bring("1", ["u1"])
    for name in STREAMS:
        platform.api.unpause(platform.of(name).dag)
    for name in STREAMS:
        platform.of(name).wait_for_driver(seconds=400)
    with chromium() as browser:
        found = ListUser(platform, browser)
        for name, wave in STREAMS.items():
            rules = {"client_timeouts_table": f"lake/{name}"} if name in BAD else {"gap_timeout": "3 hours"}
            spec = yaml.safe_load(SPEC.format(name=name))
            found.write_spec({**spec, "rules": rules, "upgrades": {"wave": wave}}, name)
        found.log_in()
        yield found


def is_bounded(states: dict[str, str]) -> bool:
    """Whether order and pace are kept: of lower waves all is over, and at most two are carried out."""
    begun = {name for name, state in states.items() if state != WAITS}
    over = {name for name, state in states.items() if state in {DONE, FAILED}}
    ordered = all(other in over for name in begun for other, wave in STREAMS.items() if wave < STREAMS[name])
    return ordered and sum(state == RUNS for state in states.values()) <= AT_ONCE


def test_an_approved_list_goes_on_in_waves_and_stops_after_failures(user: ListUser) -> None:
    platform = user.platform
    run = platform.run_now(user.dag)
    plan = user.wait_for_plan(run)
    assert all(f"**{name}**, wave {wave}" in plan["body"] for name, wave in STREAMS.items())
    user.answer(run, "Approve")
    assert user.wait_for_end(run) == "success"
    user.browser.open(f"{user.address}/streams-page/")
    user.browser.wait_for_text("Upgrades: 0 of 5 done")
    user.follow(lambda states: states["clicks"] == RUNS)
    user.see_at_each_width("begin")
    user.follow(lambda states: {states["carts"], states["taps"]} <= {RUNS, FAILED, DONE})
    user.see_at_each_width("two at once")
    user.follow(lambda states: states["carts"] == DONE and states["visits"] == FAILED)
    user.browser.wait_for_text("2 failed")
    assert platform.wait_for_end("sessionizer.maintenance", platform.run_now("sessionizer.maintenance")) == "success"
    expected = {"clicks": DONE, "carts": DONE, "taps": FAILED, "visits": FAILED, "wares": WAITS}
    assert user.states_shown() == expected
    user.see_at_each_width("held")
    assert len(platform.runs("sessionizer.upgrade")) == len(STREAMS) - 1
    assert all(map(is_bounded, user.seen)), user.seen
    assert max(sum(state == RUNS for state in states.values()) for states in user.seen) == AT_ONCE


def test_the_rest_follows_once_a_failure_is_mended_and_its_run_cleared(user: ListUser) -> None:
    platform = user.platform
    timeouts = pa.table({"client": ["acme"], "timeout_ms": pa.array([60_000], pa.int64())})
    write_deltalake(str(platform.installation.platform_home / "lake" / "taps"), timeouts)
    (run,) = (
        str(each["dag_run_id"]) for each in platform.runs("sessionizer.upgrade") if "__taps__" in each["dag_run_id"]
    )
    UpgradeForm(platform).clear(run, "plan", "approve", "carry_out")
    user.follow(lambda states: states["wares"] == DONE)
    assert user.states_shown() == {**dict.fromkeys(STREAMS, DONE), "visits": FAILED}
    user.see_at_each_width("end")
    assert all(map(is_bounded, user.seen)), user.seen
    for name in STREAMS:
        records = read_operations(platform.of(name).home)
        assert [(each.verb, each.outcome) for each in records] == [("upgrade", Ending.DONE)] * (name != "visits")
        assert all(each.by.startswith("admin, in a list") for each in records)
