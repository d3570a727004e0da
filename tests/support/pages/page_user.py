"""The forms of `sessionizer.operate` and `sessionizer.upgrade`, as a user fills them in, through Airflow's API."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml

from sessionizer_demo.local_airflow.api import wait_until
from support.expected.landed import assert_path_as_defined, batches_on_path
from support.pages.browser import Browser, chromium
from support.processes.live_airflow import DRIVEN, OUR_DAGS, Platform, template_of, tolerant
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec

OPERATE = "sessionizer.operate"


@dataclass
class OperateForm:
    """Of a running Airflow; the stream is the platform's."""

    platform: Platform
    dag: ClassVar = OPERATE

    def ask(self, verb: str, **form: Any) -> str:
        body = {"logical_date": None, "conf": {"verb": verb, "stream": self.platform.stream, **form}}
        return str(self.platform.api.call("POST", f"/api/v2/dags/{self.dag}/dagRuns", body)["dag_run_id"])

    def states(self, run: str) -> dict[str, str]:
        return self.platform.states(self.dag, run)

    def unskipped(self, run: str) -> dict[str, str]:
        """Return the states of the tasks that were not skipped. The form has a task for each verb, and one runs."""
        return {task: state for task, state in self.states(run).items() if state != "skipped"}

    def tries(self, run: str) -> dict[str, int]:
        return {task["task_id"]: task["try_number"] for task in self.platform.tasks(self.dag, run)}

    def note(self, run: str) -> str:
        return str(self.platform.run(self.dag, run)["note"])

    def wait_for_plan(self, run: str) -> dict[str, Any]:
        """What is shown to whoever approves."""
        wait_until(tolerant(lambda: self.states(run).get("approve") == "awaiting_input"), 300, "a plan")
        shown: dict[str, Any] = self.platform.api.call("GET", self.approval(run))
        return shown

    def approval(self, run: str) -> str:
        return f"/api/v2/dags/{self.dag}/dagRuns/{run}/taskInstances/approve/-1/hitlDetails"

    def answer(self, run: str, option: str) -> None:
        """As a person does, who reads first: Airflow loses an answer while it has not noted that the task waits."""
        self.wait_until_noted(run)
        self.platform.api.call("PATCH", self.approval(run), {"chosen_options": [option], "params_input": {}})

    def wait_until_noted(self, run: str) -> None:
        ended = f"TaskInstance Finished: dag_id={self.dag}, task_id=approve, run_id={run},"

        def is_noted() -> bool:
            log = (self.platform.installation.logs / "scheduler.log").read_text(errors="replace")
            return log.count(ended) >= self.tries(run)["approve"]

        wait_until(tolerant(is_noted), 60, "a scheduler that knows that the plan waits")

    def wait_for_end(self, run: str, seconds: float = 240) -> str:
        return self.platform.wait_for_end(self.dag, run, seconds)

    def clear(self, run: str, *tasks: str) -> None:
        self.platform.clear_tasks(self.dag, run, *tasks)

    def errors(self, run: str, task: str) -> list[str]:
        return self.platform.lines_of(self.dag, run, f"{task}/logs/1", at={"error"})


PICTURES = Path(os.environ["TEST_PICTURES"]) if "TEST_PICTURES" in os.environ else None
"""Where the pages are kept as a person saw them. None: nowhere."""
CLICKS = clicks_spec(idle_after=None)
PAGE_SPEC = template_of(CLICKS)
PAGE_SETTINGS = (
    DRIVEN
    | OUR_DAGS
    | {
        "SESSIONIZER_APPROVERS": "admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,olga:op,vic:viewer",
    }
)
"""Settings of an Airflow that drives ``clicks`` by ``PAGE_SPEC``, with users of three roles."""


@dataclass
class BrowserUser(OperateForm):
    browser: Browser

    @property
    def address(self) -> str:
        return self.platform.installation.address

    def log_in(self, user: str = "admin") -> None:
        self.browser.log_in(self.address, self.platform.password_of(user), user)

    def see(self, picture: str) -> None:
        if PICTURES is not None and picture:
            self.browser.picture(PICTURES / f"{picture.replace(' ', '-')}.png")

    def open_plan(self, run: str, text: str) -> str:
        """Open the page of the approval once it has the ``text``. Returns what it says."""
        self.wait_for_plan(run)
        self.browser.open(f"{self.address}/dags/{self.dag}/runs/{run}/tasks/approve/required_actions")
        self.browser.wait_for_text(text)
        return self.browser.text()

    def answer_by_click(self, run: str, answer: str = "Approve", seconds: float = 900) -> str:
        """Answer on the page, and return the state in which the run ends."""
        self.wait_until_noted(run)
        self.browser.click("button", answer)
        return self.wait_for_end(run, seconds)

    def write_spec(self, spec: Mapping[str, Any], name: str = "clicks") -> None:
        specs = Path(self.platform.installation.settings["SESSIONIZER_STREAMS"])
        (specs / f"{name}.yaml").write_text(yaml.safe_dump({**spec, "name": name}, sort_keys=False))


class UpgradeForm(OperateForm):
    dag: ClassVar = "sessionizer.upgrade"


@dataclass
class PageUser(BrowserUser):
    """A user at the Streams page, and the stream of the platform, whose files wait to be fed."""

    stage: Stage
    files: ClickFiles
    waiting: Path
    clicks: int = field(default=0, init=False)

    def click(self, selector: str, text: str | None = None) -> None:
        self.clicks += 1
        self.browser.click(selector, text)

    def open_tab(self) -> None:
        self.browser.open(f"{self.address}/dags/{self.platform.dag}/plugin/stream")
        self.browser.wait_for_text("Timeline")

    def act(self, label: str, why: str = "", accept: str = "", **fields: str) -> None:
        """Click the button of an action, fill in its dialog, and wait for Airflow's answer.

        ``accept`` is a difference whose box is ticked.

        Until then the dialog is open, and takes the clicks on everything below it.
        """
        self.click(".actions button", label)
        for name, value in fields.items():
            self.browser.fill(f"#field-{name}", value)
        if accept:
            self.click(f"dialog input[name=accept][value='{accept}']")
        if why:
            self.browser.fill("#field-why", why)
        self.click("dialog button[type=submit]")
        asking = "dialog .said"
        wait_until(lambda: not any("Asking" in said for said in self.browser.says(asking)), 60, "an answer of Airflow")

    def save_by_click(self, why: str = "") -> None:
        self.act("Savepoint", why=why)
        self.browser.wait_for_text("savepoint: done", 240)
        self.close_cards()

    def read_plan(self) -> str:
        """Wait until the newest card has a plan that can be answered. Return what the card says."""
        self.browser.wait_for_text("approve: waits for you", 300)
        run = self.newest_run
        form = UpgradeForm if run["dag_id"] == UpgradeForm.dag else OperateForm
        form(self.platform).wait_until_noted(run["dag_run_id"])
        enabled = "e.querySelector('.plan button.primary')?.disabled === false"
        # the newest card is in the dialog, or the first: an older one below it may have its buttons earlier

        def can_be_answered() -> bool:
            cards = [*self.browser.says("dialog .change", enabled), *self.browser.says(".change", enabled)]
            return cards[:1] == [True]

        wait_until(can_be_answered, 30, "a button, once it could be read")
        return "\n".join(self.browser.says(".plan"))

    def click_answer(self, answer: str, end: str, seconds: float = 400) -> None:
        """Answer the plan on the page, and wait until its card says how it ended."""
        self.click(".plan button", answer)
        self.browser.wait_for_text(end, seconds)

    def close_cards(self) -> None:
        closes = ".change-head .quiet"
        while self.browser.says(closes):
            if not self.browser.says("dialog"):
                self.browser.click(closes)
                continue
            self.browser.click(f"dialog {closes}")  # an open dialog covers the cards below it
            wait_until(lambda: self.browser.says("dialog") == [], 10, "a dialog that is closed")

    @property
    def newest_run(self) -> dict[str, Any]:
        dags = (OperateForm.dag, UpgradeForm.dag)
        return max((run for dag in dags for run in self.platform.runs(dag)), key=lambda run: str(run["run_after"]))

    def feed(self, count: int) -> None:
        feed_stage(self.stage, self.waiting, count)

    def assert_exact(self) -> None:
        assert_path_as_defined(self.stage, self.files)


def feed_stage(stage: Stage, waiting: Path, count: int) -> None:
    """Bring so many of the waiting files, and wait until the active lineage, or its path, has read all there are."""
    for name in sorted(file.name for file in waiting.glob("*.json"))[:count]:
        (waiting / name).rename(stage.feed / name)
    there = {file.name for file in stage.feed.glob("*.json")}

    def are_read() -> bool:
        return there <= {name for batch in batches_on_path(stage.stream_home) for name in batch.files}

    wait_until(are_read, 300, "a stream that has read its files")


@contextmanager
def page_user(platform: Platform, files: int, first: int) -> Iterator[PageUser]:
    """Log an admin in, over a stream that has read the ``first`` of its ``files``."""
    root = platform.installation.root
    stage = Stage.set_up(root, CLICKS, home=platform.installation.platform_home)
    written = write_click_files(root / "waiting", files, rate=12)
    with chromium() as browser:
        user = PageUser(platform, browser, stage, written, root / "waiting")
        platform.api.unpause(platform.dag)
        user.feed(first)
        platform.wait_for_driver()
        browser.show_as(1280, 900)
        user.log_in()
        yield user
