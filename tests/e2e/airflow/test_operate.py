"""What a person asks of a stream in the form of `sessionizer.operate`, with a running Airflow and a stream that Spark
really drives. The tests follow one stream in order."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from sessionizer.control.records.operation_record import Ending, OperationStage, pending_operation, read_operations
from sessionizer.control.status.driver_status import State
from sessionizer.state.savepoints.listing import Savepoint
from sessionizer_demo.local_airflow.api import wait_until
from sessionizer_demo.local_airflow.parts import end_processes, left_behind
from support.expected.landed import assert_path_as_defined, landed
from support.pages.page_user import CLICKS, OPERATE, PAGE_SETTINGS, PAGE_SPEC, OperateForm, feed_stage
from support.processes.file_notifier import told
from support.processes.live_airflow import Platform
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage

# an approval alone is waited for as long as its patience
pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

SPEC = PAGE_SPEC
SETTINGS = PAGE_SETTINGS | {
    "SESSIONIZER_APPROVAL_PATIENCE": "5 minutes",
    "SESSIONIZER_REPORT_POOL": "reports",
    "SESSIONIZER_COMMAND_POOL": "commands",
}
FILES, BEFORE, LAST = 7, 3, 1
"""So many files there are; so many are read before the savepoint, so many after the last change of the state."""
KEY_GROUPS = 3
"""Another number than the spec's."""
RELEASE, LATER = "before the release", "later"
"""Why there are savepoints."""


@dataclass
class Operated(OperateForm):
    """A platform whose one stream reads files whose rows are known."""

    stage: Stage
    files: ClickFiles
    waiting: Path

    def feed(self, count: int) -> None:
        feed_stage(self.stage, self.waiting, count)

    def savepoint(self, why: str) -> Savepoint:
        (made,) = self.platform.savepoints(why)
        return made

    def approve(self, verb: str, **form: Any) -> str:
        """Ask for it, and approve its plan. Returns the run once it has ended well."""
        run = self.ask(verb, **form)
        self.wait_for_plan(run)
        self.answer(run, "Approve")
        assert self.wait_for_end(run, 400) == "success"
        return run


@pytest.fixture(scope="module")
def operated(platform: Platform) -> Operated:
    root = platform.installation.root
    stage = Stage.set_up(root, CLICKS, home=platform.installation.platform_home)
    waiting = root / "waiting"
    files = write_click_files(waiting, FILES, rate=12)
    found = Operated(platform, stage, files, waiting)
    for pool in ("reports", "commands"):
        platform.api.ensure_pool(pool, slots=1)
    platform.api.unpause(platform.dag)
    found.feed(BEFORE)
    platform.wait_for_driver()
    return found


def test_a_savepoint_is_made_while_the_stream_runs_on(operated: Operated) -> None:
    uid = operated.platform.working_uid()
    run = operated.ask("savepoint", why=RELEASE)
    assert operated.wait_for_end(run) == "success"
    assert operated.unskipped(run) == {"read_form": "success", "savepoint": "success"}
    made = operated.savepoint(RELEASE)
    assert made.is_complete
    assert operated.note(run) == f"savepoint clicks → savepoint {made.id}"
    assert operated.platform.working_uid() == uid


def test_a_form_that_contradicts_itself_says_why_and_starts_nothing(operated: Operated) -> None:
    run = operated.ask("restore")
    assert operated.wait_for_end(run) == "failed"
    assert set(operated.states(run).values()) == {"failed", "upstream_failed"}
    assert operated.errors(run, "read_form")[-1].startswith("What to do: run this DAG")


RUNS: dict[str, str] = {}
"""Those that a later test answers, or nobody does."""


def planned(operated: Operated, name: str, savepoint: str) -> str:
    """A run that waits for its approval since just now: however slow the machine, there is time for an answer."""
    RUNS[name] = operated.ask("restore", savepoint=operated.savepoint(savepoint).id, why=name)
    operated.wait_for_plan(RUNS[name])
    return RUNS[name]


def test_a_plan_is_shown_and_people_are_told(operated: Operated) -> None:
    operated.feed(FILES - BEFORE - LAST)
    assert operated.wait_for_end(operated.ask("savepoint", why=LATER)) == "success"
    lineage, tables = operated.stage.lineage, landed(operated.stage)
    shown = operated.wait_for_plan(planned(operated, "unanswered", RELEASE))
    assert shown["subject"].endswith(f" {operated.savepoint(RELEASE).id}?")
    body = shown["body"].replace("\\", "")
    assert "- why: unanswered" in body
    assert f"- from  lineage {lineage}" in body
    assert [each["id"] for each in shown["assigned_users"]] == ["admin"]
    (link,) = [each["what_to_do"] for each in told(operated.platform.told) if each["kind"] == "wants_approval"]
    assert f"/dags/{OPERATE}/runs/" in link
    assert (operated.stage.lineage, landed(operated.stage)) == (lineage, tables)


def test_rejected_nothing_changes(operated: Operated) -> None:
    uid, lineage = operated.platform.working_uid(), operated.stage.lineage
    run = planned(operated, "rejected", RELEASE)
    operated.answer(run, "Reject")
    assert operated.wait_for_end(run) == "success"
    assert operated.states(run)["carry_out"] == "skipped"
    assert operated.note(run).endswith("→ rejected")
    assert uid
    assert (operated.platform.working_uid(), operated.stage.lineage) == (uid, lineage)
    assert read_operations(operated.platform.home) == []


def processes_of(operated: Operated) -> list[psutil.Process]:
    found = []
    for process in left_behind(operated.platform.installation):
        try:
            if "carry-out" in process.cmdline():
                found += [process, *process.parents()[:1]]
        except psutil.NoSuchProcess:
            continue
    mine = {process.pid for process in psutil.Process().parents()} | {os.getpid()}
    servers = {part.pid for part in operated.platform.parts.running.values()}
    return [process for process in found if process.pid not in mine | servers]


def test_approved_and_its_worker_killed_a_second_try_finishes(operated: Operated) -> None:
    home, before = operated.platform.home, operated.stage.lineage
    assert before
    # of another savepoint: two plans of the same would have the same digest
    planned(operated, "outdated", LATER)
    operated.answer(planned(operated, "approved", RELEASE), "Approve")

    def seeded() -> bool:
        pending = pending_operation(home)
        return pending is not None and pending.has_done(OperationStage.SEEDED)

    wait_until(seeded, 240, "a restore in its middle")
    end_processes(processes_of(operated), seconds=0)
    assert pending_operation(home) is not None, "it was too fast to be killed"
    assert operated.platform.working_uid() is None
    assert operated.wait_for_end(RUNS["approved"], 400) == "success"
    (record,) = read_operations(home)
    assert (record.outcome, record.by, record.lineage_from) == (Ending.DONE, "admin (Airflow)", before)
    assert operated.stage.lineage == record.lineage_to
    operated.platform.wait_for_driver(seconds=180)
    operated.feed(0)


def test_those_who_read_the_tables_are_told_of_the_days(operated: Operated) -> None:
    (record,) = read_operations(operated.platform.home)
    for name in ("sessions", "report_due"):
        asset = operated.platform.api.call("GET", f"/api/v2/assets?name_pattern=clicks.{name}")["assets"][0]
        events = operated.platform.api.call("GET", f"/api/v2/assets/events?asset_id={asset['id']}")["asset_events"]
        (said,) = [event["extra"] for event in events if "restored_to" in event["extra"]]
        about = {"stream": "clicks", "operation": "restore"}
        assert said == {**about, "restored_to": record.savepoint, "days": record.days.split()}


def test_a_plan_that_is_no_longer_what_would_be_done_is_refused_also_when_it_was_cleared(operated: Operated) -> None:
    run, lineage = RUNS["outdated"], operated.stage.lineage
    before = operated.platform.api.call("GET", operated.approval(run))
    operated.clear(run, "plan", "approve", "carry_out")
    wait_until(lambda: operated.tries(run)["plan"] == 2, 120, "a plan that is made anew")
    after = operated.wait_for_plan(run)
    assert after["body"] == before["body"], "somebody would approve what they have not read"
    uid = operated.platform.working_uid()
    operated.answer(run, "Approve")
    assert operated.wait_for_end(run) == "failed"
    *_, reason, to_do = operated.errors(run, "carry_out")
    assert "was approved" in reason
    assert to_do.startswith("What to do: ")
    assert (operated.stage.lineage, len(read_operations(operated.platform.home))) == (lineage, 1)
    assert uid
    assert operated.platform.working_uid() == uid
    (failed,) = [each for each in told(operated.platform.told) if each["kind"] == "operation_failed"]
    assert "as it was" in failed["text"]


def test_without_an_answer_it_is_rejected(operated: Operated) -> None:
    assert operated.wait_for_end(RUNS["unanswered"], 600) == "success"
    assert operated.unskipped(RUNS["unanswered"]) == {"read_form": "success", "plan": "success", "approve": "success"}
    assert len(read_operations(operated.platform.home)) == 1


def test_any_change_of_the_state_goes_the_same_way(operated: Operated) -> None:
    before = operated.stage.lineage
    run = operated.ask("rescale", key_groups=KEY_GROUPS, why="more users")
    shown = operated.wait_for_plan(run)
    assert shown["subject"] == "Rescale clicks?"
    assert f"{KEY_GROUPS} key groups" in shown["body"].replace("\\", "")
    operated.answer(run, "Approve")
    assert operated.wait_for_end(run, 400) == "success"
    record = read_operations(operated.platform.home)[-1]
    assert (record.verb, record.by, record.lineage_from) == ("rescale", "admin (Airflow)", before)
    assert operated.note(run) == "rescale clicks → done"
    assert operated.stage.lineage == record.lineage_to
    operated.platform.wait_for_driver(seconds=180)


def test_what_was_taken_back_can_be_done_again(operated: Operated) -> None:
    first = read_operations(operated.platform.home)[-1]
    operated.approve("rollback", why="they are not so many")
    assert operated.stage.lineage == first.lineage_from
    # nothing has come since: the driver makes no batch, and what is planned now is what was planned before
    wait_until(lambda: operated.platform.look().state is State.IDLE, 180, "a driver that waits for events")
    operated.approve("rescale", key_groups=KEY_GROUPS, why="they are")
    record = read_operations(operated.platform.home)[-1]
    assert record.digest == first.digest, "its plan was another one, so this shows nothing"
    assert operated.stage.lineage == record.lineage_to != first.lineage_to
    operated.platform.wait_for_driver(seconds=180)
    operated.feed(LAST)


def test_the_tables_come_out_as_they_must(operated: Operated) -> None:
    operated.platform.drain(operated.stage)
    assert_path_as_defined(operated.stage, operated.files)
