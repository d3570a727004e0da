"""Streams that Spark really drives, in one state after the other: page, status and task's label say the same word.

The page is read in Chromium, the status by the command, the label from Airflow's list of tasks. The states follow each
other, so the tests run in the order of the file.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest
import yaml
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.control.records.launch_record import read_launch
from sessionizer.fleet.health.verdict import USUAL
from sessionizer.home.clock import epoch_ms
from sessionizer_demo.local_airflow.api import wait_until
from support.pages.browser import Browser, chromium
from support.places import REPOSITORY
from support.processes.live_airflow import TASK
from support.streams.stage import clicks_spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.processes.live_airflow import Platform

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

CLICKS = clicks_spec()
SPEC = yaml.safe_dump(CLICKS, sort_keys=False).replace("{", "{{").replace("}", "}}") + "name: {name}\n"
BROKEN = {**CLICKS, "name": "returns", "source": {**CLICKS["source"], "path": "nowhere"}}
SETTINGS = {
    "SESSIONIZER_APPLICATION": str(REPOSITORY / "jobs" / "main.py"),
    "SESSIONIZER_STALE_LIMIT": "2 minutes",
    "SESSIONIZER_WATCH_LEASE": "20 minutes",
    "SESSIONIZER_FIRST_BACKOFF": "40 seconds",
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
}
REACHED_WITHIN_S = 600.0
SAME_WITHIN_S = 60.0
"""On a busy machine, where a driver needs minutes to start. The promise is 10 seconds. Each test logs what it took."""
WORD_OF = """(() => {
  const row = [...document.querySelectorAll('tbody tr')].find((each) => each.querySelector('a')?.textContent === %s);
  return row?.querySelector('.pill')?.lastChild.textContent ?? null;
})()"""


@dataclass
class Screen:
    """A user at the browser, with a list of tasks and a terminal beside it."""

    platform: Platform
    browser: Browser

    def says(self, stream: str) -> dict[str, str | None]:
        """Return the label of a stream in each place, and the word that the browser shows."""
        rows = self.platform.api.call("GET", "/streams-page/api/fleet")["streams"]
        folders = ("--streams", str(self.specs), "--home", str(self.platform.installation.platform_home))
        typed = json.loads(CliRunner().invoke(app, ["status", "--json", *folders]).stdout)
        tasks = self.platform.of(stream)
        run = tasks.watch()
        return {
            "browser": self.browser.ask(WORD_OF % json.dumps(stream)),
            "page": next(label_of(row["health"]) for row in rows if row["stream"] == stream),
            "status": next(label_of(each["health"]) for each in typed if each["stream"] == stream),
            "task": tasks.task(tasks.dag, run, TASK)["rendered_map_index"] if run else None,
        }

    def wait_for(self, stream: str, label: str) -> None:
        """Wait until the page has the label, then until all places say the same."""
        seen: dict[str, str | None] = {}
        begun = time.monotonic()

        def is_somewhere() -> bool:
            seen.update(self.says(stream))
            # the browser shows the word alone, which a stopped stream has in common with one that works
            return label in {seen["page"], seen["status"], seen["task"]}

        def is_everywhere() -> bool:
            seen.update(self.says(stream))
            return seen == {"browser": label.partition(":")[0], "page": label, "status": label, "task": label}

        try:
            wait_until(is_somewhere, REACHED_WITHIN_S, f"{stream} to be {label!r}")
            begun = time.monotonic()
            wait_until(is_everywhere, SAME_WITHIN_S, f"{stream} to be {label!r} everywhere")
        finally:
            log.info("%.1f s: %s is %s", time.monotonic() - begun, stream, seen)

    @property
    def specs(self) -> Path:
        return self.platform.installation.root / "specs"

    def feed(self, rows: int) -> None:
        """Bring a file with events of now."""
        at = epoch_ms()
        events = [
            {"event_id": f"{at}-{row}", "user_id": f"u{row % 7}", "ts": at, "type": "view"} for row in range(rows)
        ]
        place = self.platform.installation.platform_home / "feed"
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{time.monotonic_ns()}.json"
        file.with_suffix(".tmp").write_text("\n".join(json.dumps(event) for event in events))
        file.with_suffix(".tmp").rename(file)


def label_of(health: dict[str, Any]) -> str:
    word, rule = health["word"], health["rule"]
    return word if word == "healthy" and rule in USUAL else f"{word}: {rule.replace('_', ' ')}"


@pytest.fixture(scope="module")
def screen(platform: Platform) -> Iterator[Screen]:
    with chromium() as browser:
        found = Screen(platform, browser)
        (found.specs / "returns.yaml").write_text(yaml.safe_dump(BROKEN, sort_keys=False))
        wait_until(lambda: "returns.supervise" in platform.api.dag_ids(), 120, "the DAG of another stream")
        found.feed(20)
        browser.show_as(1280, 900)
        browser.open(platform.installation.address)
        browser.fill("input[name=username]", "admin")
        browser.fill("input[name=password]", platform.installation.password)
        browser.click("button", "Sign in")
        browser.wait_for_text("Active Dags")
        browser.open(f"{platform.installation.address}/streams-page/")
        browser.wait_for_text("3 streams")
        yield found


def test_a_stream_starts_and_works(screen: Screen) -> None:
    screen.platform.api.unpause("clicks.supervise")
    screen.wait_for("clicks", "warning: starting")
    screen.wait_for("clicks", "healthy")


def test_an_idle_source_is_healthy(screen: Screen) -> None:
    def is_idle() -> bool:
        rows = screen.platform.api.call("GET", "/streams-page/api/fleet")["streams"]
        return any(row["stream"] == "clicks" and row["health"]["rule"] == "idle" for row in rows)

    wait_until(is_idle, 120, "an idle source")
    screen.wait_for("clicks", "healthy")


def test_a_stream_whose_source_is_not_there_is_given_up(screen: Screen) -> None:
    screen.platform.api.unpause("returns.supervise")
    screen.wait_for("returns", "down: given up")


def test_a_stream_whose_driver_was_killed_backs_off(screen: Screen) -> None:
    launch = read_launch(screen.platform.home)
    assert launch is not None
    os.killpg(psutil.Process(launch.pid).pid, signal.SIGKILL)
    screen.wait_for("clicks", "warning: backing off")


def test_a_stopped_stream_is_healthy(screen: Screen) -> None:
    screen.platform.run_now("clicks.stop")
    screen.wait_for("clicks", "healthy: stopped")
