"""The Streams page of a running Airflow: an alert that is tried from it, the rights of each user, and who is silent."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil  # type: ignore[import-untyped]
import pytest
import yaml

from sessionizer.control.records.launch_record import read_launch
from sessionizer.control.records.operation_record import read_operations
from sessionizer.home.clock import epoch_ms
from sessionizer.state.lineages.origin import origins_of
from sessionizer.state.savepoints.shelf import savepoints_in
from sessionizer_demo.local_airflow.api import wait_until
from support.expected.checkpoint_log import CheckpointLog
from support.pages.browser import Browser, chromium
from support.pages.operate_form import OPERATE, OperateForm
from support.places import REPOSITORY
from support.processes.file_notifier import told
from support.processes.found_process import known
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.processes.live_airflow import Platform

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

CLICKS = clicks_spec(idle_after=None)
SPEC = yaml.safe_dump(CLICKS, sort_keys=False).replace("{", "{{").replace("}", "}}") + "name: {name}\n"
SETTINGS = {
    "SESSIONIZER_APPLICATION": str(REPOSITORY / "jobs" / "main.py"),
    "SESSIONIZER_STALE_LIMIT": "60 seconds",
    "SESSIONIZER_WATCH_LEASE": "2 minutes",
    "SESSIONIZER_APPROVAL_PATIENCE": "20 minutes",
    "SESSIONIZER_APPROVERS": "admin",
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,olga:op,vic:viewer",
}
FILES = 3
PICTURES = Path(os.environ["TEST_PICTURES"]) if "TEST_PICTURES" in os.environ else None


@dataclass
class Seen(OperateForm):
    """A user at the browser, and the stream of the platform."""

    browser: Browser
    stage: Stage
    waiting: Path

    @property
    def address(self) -> str:
        return self.platform.installation.address

    def feed(self, count: int) -> None:
        for name in sorted(file.name for file in self.waiting.glob("*.json"))[:count]:
            (self.waiting / name).rename(self.stage.feed / name)
        there = {file.name for file in self.stage.feed.glob("*.json")}
        wait_until(lambda: there <= self.names_read(), 300, "a stream that has read its files")

    def names_read(self) -> set[str]:
        home = self.platform.home
        found = [CheckpointLog(home.checkpoint(lineage)).committed() for lineage in origins_of(home)]
        return {name for batches in found for batch in batches for name in batch.files}

    def see(self, picture: str) -> None:
        if PICTURES is not None:
            self.browser.picture(PICTURES / f"{picture}.png")


@pytest.fixture(scope="module")
def seen(platform: Platform) -> Iterator[Seen]:
    root = platform.installation.root
    stage = Stage.set_up(root, CLICKS, home=platform.installation.platform_home)
    write_click_files(root / "waiting", FILES, rate=12)
    with chromium() as browser:
        found = Seen(platform, browser, stage, root / "waiting")
        platform.api.unpause(platform.dag)
        found.feed(FILES)
        platform.wait_for_driver()
        assert found.wait_for_end(found.ask("savepoint", why="before the release")) == "success"
        browser.show_as(1280, 900)
        browser.open(platform.installation.address)
        browser.fill("input[name=username]", "admin")
        browser.fill("input[name=password]", platform.installation.password)
        browser.click("button", "Sign in")
        browser.wait_for_text("Active Dags")
        browser.open(f"{platform.installation.address}/streams-page/")
        browser.wait_for_text("2 streams")
        yield found


def test_an_alert_is_tried_from_the_page(seen: Seen) -> None:
    seen.browser.ask("location.hash = '#/clicks'")
    seen.browser.click("button", "Test the alerts")
    seen.browser.click("dialog button[type=submit]")
    wait_until(lambda: "test" in {each["kind"] for each in told(seen.platform.told)}, 90, "a test message")
    (alert,) = [each for each in told(seen.platform.told) if each["kind"] == "test"]
    assert "admin" in alert["reason"]
    seen.browser.wait_for_text("test alert: done")


def test_each_action_needs_its_right(seen: Seen) -> None:
    """Anonymous, a viewer, an operator who is no approver, and a foreign page with the user's cookie."""
    run = f"{seen.address}/api/v2/dags/{OPERATE}/dagRuns"
    body = {"logical_date": None, "conf": {"verb": "rollback", "stream": "clicks"}}
    pages = [f"{seen.address}/streams-page/{path}" for path in ("", "api/fleet", "api/streams/clicks.supervise/live")]
    viewer, operator = (cookie(seen.platform.token_of(user)) for user in ("vic", "olga"))
    assert {httpx.get(page, timeout=20).status_code for page in pages} == {401}
    assert {httpx.get(page, headers=viewer, timeout=20).status_code for page in pages} == {200}
    assert httpx.post(run, json=body, timeout=20).status_code == 401
    assert httpx.post(run, json=body, headers=viewer, timeout=20).status_code == 403
    plain = {**operator, "Content-Type": "text/plain"}
    forged = httpx.post(run, content=json.dumps(body), headers=plain, timeout=20)
    assert 400 <= forged.status_code < 500, "the form of a foreign page can send nothing else"
    planned = seen.ask("restore", savepoint=newest_savepoint(seen), why="nobody approves it")
    seen.wait_for_plan(planned)
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    for user, status in ((viewer, 403), (operator, 403), ({}, 401)):
        refused = httpx.patch(f"{seen.address}{seen.approval(planned)}", json=answer, headers=user, timeout=20)
        assert refused.status_code == status
    seen.answer(planned, "Reject")
    assert seen.wait_for_end(planned) == "success"
    assert read_operations(seen.platform.home) == []


@pytest.mark.parametrize("part", ["driver", "triggerer", "api-server"])
def test_who_is_silent_is_told(part: str, seen: Seen) -> None:
    seen.browser.ask("location.hash = '#/clicks'")
    seen.browser.wait_for_text("Timeline")
    wait_until(lambda: "silent" not in seen.browser.text(), 60, "nobody silent")
    processes = processes_of(seen, part)
    send(processes, signal.SIGSTOP)
    said = {"driver": "driver of clicks is silent", "triggerer": "triggerer is silent", "api-server": "does not answer"}
    try:
        seen.browser.wait_for_text(said[part])
        seen.see(f"silent-{part}")
    finally:
        send(processes, signal.SIGCONT)
    wait_until(lambda: said[part] not in seen.browser.text(), 60, "all are heard again")


def newest_savepoint(seen: Seen) -> str:
    return savepoints_in(seen.platform.home.savepoints, epoch_ms())[-1].id


def processes_of(seen: Seen, part: str) -> list[psutil.Process]:
    """The part of Airflow, or the driver, with all that they have started."""
    if part == "driver":
        launch = read_launch(seen.platform.home)
        assert launch is not None
        process = psutil.Process(known(launch.pid))
    else:
        process = psutil.Process(seen.platform.parts.running[part].pid)
    return [process, *process.children(recursive=True)]


def send(processes: list[psutil.Process], sent: signal.Signals) -> None:
    for process in processes:
        process.send_signal(sent)


def cookie(token: str) -> dict[str, Any]:
    return {"Cookie": f"_token={token}"}
