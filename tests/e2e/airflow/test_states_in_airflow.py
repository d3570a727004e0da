"""Streams that Spark really drives, in one state after the other: page, status and task's label say the same word.

The page is read in Chromium, the status by the command, the label from Airflow's list of tasks. `clicks` goes from
state to state. `visits` falls behind meanwhile. `returns` has no source at first, and refused rows later. At the end
parts of the platform are stopped by a signal, and the page says who is silent. The tests run in the order of the file.
"""

import json
import logging
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import yaml
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.control.records.process_records import read_launch
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.fleet.finding import USUAL
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.active import examine_drain
from sessionizer_demo.local_airflow.api import wait_until
from sessionizer_demo.local_airflow.parts import family
from support.expected.driver_statuses import recorded
from support.faults.airflow_faults import kill_driver
from support.pages.browser import chromium
from support.pages.page_user import BrowserUser, OperateForm
from support.places import MAIN, known
from support.processes.driver_process import DriverProcess
from support.processes.live_airflow import OUR_DAGS, TASK, Platform, template_of
from support.streams.stage import Stage, clicks_spec

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

CLICKS = clicks_spec()
SPEC = template_of(CLICKS)
SLOW = {**CLICKS, "name": "visits", "trigger_interval": "100 milliseconds"}
SLOW["source"] = {**CLICKS["source"], "path": "backlog"}
BROKEN = {**CLICKS, "name": "returns", "source": {**CLICKS["source"], "path": "nowhere"}}
SETTINGS = OUR_DAGS | {
    "SESSIONIZER_APPLICATION": MAIN,
    "SESSIONIZER_STALE_LIMIT": "2 minutes",
    "SESSIONIZER_WATCH_LEASE": "20 minutes",
    "SESSIONIZER_FIRST_BACKOFF": "40 seconds",
    "SESSIONIZER_LAG_ALERT": "1 minute",
    "SESSIONIZER_APPROVAL_PATIENCE": "20 minutes",
    "SESSIONIZER_APPROVERS": "admin",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
}
REACHED_WITHIN_S = 600.0
SAME_WITHIN_S = 60.0
"""On a busy machine, where a driver needs minutes to start. The promise is 10 seconds. Each test logs what it took."""
SILENT_WITHIN_S = 15.0
"""The promise of the page, which is kept on a busy machine, too: nothing but the browser has to work."""
WORD_OF = """(() => {
  const row = [...document.querySelectorAll('tbody tr')].find((each) => each.querySelector('a')?.textContent === %s);
  return row?.querySelector('.pill')?.lastChild.textContent ?? null;
})()"""


class Screen(BrowserUser):
    """A user at the browser, with a list of tasks and a terminal beside it."""

    def says(self, stream: str) -> dict[str, str | None]:
        """Return the label of a stream in each place, and the word that the browser shows."""
        folders = ("--streams", str(self.specs), "--home", str(self.platform.installation.platform_home))
        typed = json.loads(CliRunner().invoke(app, ["status", "--json", *folders]).stdout)
        tasks = self.platform.of(stream)
        run = tasks.watch()
        return {
            "browser": self.browser.ask(WORD_OF % json.dumps(stream)),
            "page": label_of(tasks.health()),
            "status": next(label_of(each["health"]) for each in typed if each["stream"] == stream),
            "task": tasks.task(tasks.dag, run, TASK)["rendered_map_index"] if run else None,
        }

    def wait_for(self, stream: str, label: str) -> None:
        """Wait until the page has the label, then until all places say the same. Keep a picture of it."""
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
            self.see(f"{stream} {label}".replace(":", ""))

    def hears_nothing_of(self, processes: Iterable[psutil.Process], line: str) -> None:
        """Stop the processes by a signal until the page says the line, which it takes back afterwards."""
        self.browser.open(f"{self.address}/plugin/streams")
        self.browser.wait_for_text("3 streams")
        # on a busy machine a part may beat late by itself, which would show nothing
        wait_until(lambda: line not in self.browser.text(), REACHED_WITHIN_S, f"a page without {line!r} at first")
        stopped, begun = list(processes), time.monotonic()
        for process in stopped:
            process.suspend()
        try:
            self.browser.wait_for_text(line, SILENT_WITHIN_S)
            log.info("%.1f s: %s", time.monotonic() - begun, line)
            self.see(line)
        finally:
            for process in stopped:
                process.resume()
        wait_until(lambda: line not in self.browser.text(), SAME_WITHIN_S, f"a page without {line!r}")

    @property
    def specs(self) -> Path:
        return self.platform.installation.root / "specs"

    def feed(self, rows: int, *, folder: str = "feed", age_ms: int = 0, refused: int = 0) -> None:
        """Bring a file with events of now, or of ``age_ms`` ago. So many of them have no key."""
        at = epoch_ms() - age_ms
        events = [
            {"event_id": f"{at}-{row}", "user_id": None if row < refused else f"u{row % 7}", "ts": at, "type": "view"}
            for row in range(rows)
        ]
        place = self.platform.installation.platform_home / folder
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{time.monotonic_ns()}.json"
        file.with_suffix(".tmp").write_text("\n".join(json.dumps(event) for event in events))
        file.with_suffix(".tmp").rename(file)


def label_of(health: dict[str, Any]) -> str:
    word, rule = health["word"], health["rule"]
    return word if word == "healthy" and rule in USUAL else f"{word}: {rule.replace('_', ' ')}"


@pytest.fixture(scope="module")
def screen(platform: Platform) -> Iterator[Screen]:
    with pytest.MonkeyPatch.context() as patched, chromium() as browser:
        patched.setenv("SESSIONIZER_LAG_ALERT", SETTINGS["SESSIONIZER_LAG_ALERT"])
        found = Screen(platform, browser)
        for spec in (SLOW, BROKEN):
            (found.specs / f"{spec['name']}.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
        wait_until(lambda: "returns.supervise" in platform.api.dag_ids(), 120, "the DAG of another stream")
        for _ in range(2_000):  # more than a driver reads in ten minutes
            found.feed(20, folder="backlog", age_ms=20 * 60_000)
        found.feed(20)
        browser.show_as(1280, 900)
        browser.log_in(platform.installation.address, platform.installation.password)
        browser.open(f"{platform.installation.address}/streams-page/")
        browser.wait_for_text("3 streams")
        yield found


def test_a_stream_starts_and_works(screen: Screen) -> None:
    screen.platform.api.unpause("clicks.supervise")
    screen.wait_for("clicks", "warning: starting")
    screen.wait_for("clicks", "healthy")


def test_an_idle_source_is_healthy(screen: Screen) -> None:
    wait_until(lambda: screen.platform.health()["rule"] == "idle", 120, "an idle source")
    screen.wait_for("clicks", "healthy")


def test_a_stream_whose_source_is_not_there_is_given_up(screen: Screen) -> None:
    screen.platform.api.unpause("returns.supervise")
    screen.wait_for("returns", "down: given up")


def test_a_stream_whose_driver_was_killed_backs_off_and_works_again(screen: Screen) -> None:
    kill_driver(screen.platform)
    screen.wait_for("clicks", "warning: backing off")
    screen.platform.api.unpause("visits.supervise")  # its trend needs minutes
    screen.wait_for("clicks", "healthy")


def test_a_command_has_the_stream_and_its_lineage_is_a_canary(screen: Screen) -> None:
    form = OperateForm(screen.platform)
    run = form.ask("rescale", partitions=4, why="a test")
    form.wait_for_plan(run)
    form.answer(run, "Approve")
    screen.wait_for("clicks", "warning: command")
    screen.wait_for("clicks", "warning: canary")
    form.ask("promote")
    screen.wait_for("clicks", "healthy")


def test_a_stopped_stream_is_healthy(screen: Screen) -> None:
    screen.platform.run_now("clicks.stop")
    screen.wait_for("clicks", "healthy: stopped")


def test_a_stream_that_drains_says_so_and_is_healthy_afterwards(screen: Screen) -> None:
    platform, home = screen.platform, screen.platform.home
    stage = Stage.set_up(platform.installation.root, CLICKS, home=platform.installation.platform_home)
    screen.feed(20, age_ms=-120_000)  # a driver that starts slowly must not lag, too
    with DriverProcess.start(stage, "drain", until="drained") as driver:
        # a supervisor would start a driver of its own before this one has the lease, and stop an unwanted one after
        driver.wait_for(lambda: platform.look().uid == "drain", "a driver with the lease", 240, 0.05)
        write_desired(home, DesiredState.RUNNING, by="tests", why="to be drained")
        driver.wait_for(lambda: examine_drain(home) is not None, "a drain", 240, 0.05)
        driver.freeze()  # it is over in a moment
        screen.wait_for("clicks", "warning: draining")
        driver.thaw()
        assert driver.wait() == 0, driver.said[-4_000:]
    # it starts another driver, which is refused
    wait_until(lambda: recorded(home).given_up, REACHED_WITHIN_S, "a supervisor that gives up")
    screen.wait_for("clicks", "healthy: drained")


def test_a_source_with_poison_rows_makes_a_stream_degraded(screen: Screen) -> None:
    """The stream that was given up: its source is there now, as the remedy says."""
    screen.feed(300, folder="nowhere", refused=100)
    screen.platform.api.unpause("returns.supervise")
    screen.wait_for("returns", "degraded: rows refused")


def test_a_stream_that_commits_but_falls_behind_is_degraded(screen: Screen) -> None:
    screen.wait_for("visits", "degraded: falling behind")
    screen.platform.run_now("visits.stop")
    screen.wait_for("visits", "healthy: stopped")


def test_the_page_in_airflow_says_that_a_driver_is_silent(screen: Screen) -> None:
    launch = known(read_launch(screen.platform.of("returns").home))
    screen.hears_nothing_of(family(launch.pid or 0), "The driver of returns is silent since")


def test_the_page_in_airflow_says_that_its_triggerer_is_silent(screen: Screen) -> None:
    part = screen.platform.parts.running["triggerer"]
    screen.hears_nothing_of(family(part.pid), "Airflow's triggerer was last heard at")


def test_the_page_in_airflow_says_that_the_api_server_does_not_answer(screen: Screen) -> None:
    part = screen.platform.parts.running["api-server"]
    screen.hears_nothing_of(family(part.pid), "Airflow's API server does not answer. What you see is as of")
