"""What a person asks of a stream in the form of `sessionizer.operate`, with a running Airflow and a stream that Spark
really drives. The tests follow one stream in order."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
import yaml

from sessionizer.control.records.operation_record import Ending, OperationStage, pending_operation, read_operations
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.control.status.driver_status import State
from sessionizer.home.clock import epoch_ms
from sessionizer.state.savepoints.listing import Savepoint, list_savepoints
from sessionizer_demo.local_airflow.api import wait_until
from sessionizer_demo.local_airflow.parts import end_processes, left_behind
from support.expected.checkpoint_log import CheckpointLog, MicroBatch
from support.expected.landed import assert_landed, batches_of, landed
from support.faults.airflow_faults import has_stopped
from support.pages.page_user import OPERATE, OperateForm
from support.places import REPOSITORY
from support.processes.driver_process import run_to_end
from support.processes.file_notifier import told
from support.processes.live_airflow import Platform
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec

# an approval alone is waited for as long as its patience
pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

CLICKS = clicks_spec(idle_after=None)
# in the order of the columns, which is that of the payload's
SPEC = yaml.safe_dump(CLICKS, sort_keys=False).replace("{", "{{").replace("}", "}}") + "name: {name}\n"
SETTINGS = {
    "SESSIONIZER_APPLICATION": str(REPOSITORY / "jobs" / "main.py"),
    "SESSIONIZER_STALE_LIMIT": "60 seconds",
    "SESSIONIZER_WATCH_LEASE": "2 minutes",
    "SESSIONIZER_APPROVAL_PATIENCE": "5 minutes",
    "SESSIONIZER_REPORT_POOL": "reports",
    "SESSIONIZER_COMMAND_POOL": "commands",
    "SESSIONIZER_APPROVERS": "admin",
    "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,olga:op",
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
        for name in sorted(file.name for file in self.waiting.glob("*.json"))[:count]:
            (self.waiting / name).rename(self.stage.feed / name)
        self.wait_until_read()

    def wait_until_read(self) -> None:
        there = {file.name for file in self.stage.feed.glob("*.json")}
        wait_until(lambda: there <= self.names_read(), 300, "a stream that has read its files")

    def names_read(self) -> set[str]:
        """What the active lineage, and those that led to it, have read."""
        return {name for batch in self.batches() for name in batch.files}

    def batches(self) -> list[MicroBatch]:
        """All that led to what is open now: of a lineage that was left those up to where the next one began.

        The first batch of one that began with the state of another brought that state.
        """
        if self.stage.lineage is None:
            return []
        home = self.platform.home
        ways: list[tuple[str, int | None]] = []
        for record in (each for each in read_operations(home) if each.outcome is Ending.DONE):
            if record.verb == "rollback":
                ways = ways[: [lineage for lineage, _ in ways].index(record.lineage_to or "")]
            else:
                ways.append((record.lineage_from, self.saved(record.savepoint) if record.savepoint else None))
        found: list[MicroBatch] = []
        for lineage, until in (*ways, (self.stage.lineage, None)):
            batches = CheckpointLog(home.checkpoint(lineage)).committed()[1 if found else 0 :]
            found += [batch for batch in batches if until is None or batch.batch_id <= until]
        return found

    def saved(self, savepoint: str) -> int:
        manifest = {each.id: each for each in list_savepoints(self.platform.home.savepoints, epoch_ms())}[
            savepoint
        ].manifest
        assert manifest is not None
        return manifest.batch_id

    def savepoint(self, why: str) -> Savepoint:
        found = list_savepoints(self.platform.home.savepoints, epoch_ms())
        (made,) = [each for each in found if each.begun is not None and each.begun.why.startswith(why)]
        return made

    def assert_exact(self) -> None:
        batches = batches_of(self.batches(), self.files)
        assert_landed(self.stage, batches, [row for name in sorted(self.files) for row in self.files[name]])


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
    operated.wait_until_read()


def test_those_who_read_the_tables_are_told_of_the_days(operated: Operated) -> None:
    (record,) = read_operations(operated.platform.home)
    for name in ("sessions", "report_due"):
        asset = operated.platform.api.call("GET", f"/api/v2/assets?name_pattern=clicks.{name}")["assets"][0]
        events = operated.platform.api.call("GET", f"/api/v2/assets/events?asset_id={asset['id']}")["asset_events"]
        (said,) = [event["extra"] for event in events if "restored_to" in event["extra"]]
        assert said == {
            "stream": "clicks",
            "operation": "restore",
            "restored_to": record.savepoint,
            "days": record.days.split(),
        }


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
    back = operated.ask("rollback", why="they are not so many")
    operated.wait_for_plan(back)
    operated.answer(back, "Approve")
    assert operated.wait_for_end(back, 400) == "success"
    assert operated.stage.lineage == first.lineage_from
    # nothing has come since: the driver makes no batch, and what is planned now is what was planned before
    wait_until(lambda: operated.platform.look().state is State.IDLE, 180, "a driver that waits for events")
    again = operated.ask("rescale", key_groups=KEY_GROUPS, why="they are")
    operated.wait_for_plan(again)
    operated.answer(again, "Approve")
    assert operated.wait_for_end(again, 400) == "success"
    record = read_operations(operated.platform.home)[-1]
    assert record.digest == first.digest, "its plan was another one, so this shows nothing"
    assert operated.stage.lineage == record.lineage_to != first.lineage_to
    operated.platform.wait_for_driver(seconds=180)
    operated.feed(LAST)


def test_the_tables_come_out_as_they_must(operated: Operated) -> None:
    platform = operated.platform
    uid = platform.wait_for_driver()
    platform.run_now("clicks.stop")
    wait_until(lambda: has_stopped(platform, uid), 60, "a stream that has stopped")
    platform.parts.stop_all()
    write_desired(platform.home, DesiredState.RUNNING, by="tests", why="to drain it without Airflow")
    run_to_end(operated.stage, "drain")
    operated.assert_exact()
