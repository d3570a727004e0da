"""DAGs of a user's own, with a running Airflow and a stream that Spark really drives: the example, and a restore."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer_demo.local_airflow.api import wait_until
from support.pages.page_user import OperateForm
from support.places import REPOSITORY
from support.processes.live_airflow import DRIVEN, Platform

pytestmark = [pytest.mark.long, pytest.mark.timeout(2_400)]

SETTINGS = DRIVEN
EXAMPLE = REPOSITORY / "examples" / "dags" / "release_night.py"
RELEASE_NIGHT = "release_night"
BACK = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from sessionizer_airflow import ChangeStream

with DAG("put_back", schedule=None, params={"savepoint": ""}):
    options = {"savepoint": "{{ params.savepoint }}"}
    ChangeStream(task_id="back", stream="clicks", verb="restore", options=options) >> EmptyOperator(task_id="after")
"""


class ListForm(OperateForm):
    dag = "sessionizer.upgrade_all"


def result(platform: Platform, dag: str, run: str, task: str, index: int = -1) -> Any:
    return platform.task(dag, run, f"{task}/xcomEntries/return_value?map_index={index}")["value"]


def run_of(platform: Platform, form: OperateForm, known: set[str]) -> str:
    """The run that a task has started."""

    def new() -> set[str]:
        return {str(run["dag_run_id"]) for run in platform.runs(form.dag)} - known

    wait_until(lambda: bool(new()), 600, f"a run of {form.dag}")  # a savepoint may be made first
    (run,) = new()
    return run


def test_the_example_saves_upgrades_waits_and_reports(platform: Platform) -> None:
    dags = Path(platform.installation.settings["AIRFLOW__CORE__DAGS_FOLDER"])
    text = EXAMPLE.read_text().replace('["clicks", "access_log"]', '["clicks"]')
    (dags / EXAMPLE.name).write_text(text)
    (dags / "put_back.py").write_text(BACK)
    platform.bring("1", [f"u{number}" for number in range(20)])
    platform.api.unpause(platform.dag)
    uid = platform.wait_for_driver(seconds=180)
    spec = Path(platform.installation.settings["SESSIONIZER_STREAMS"]) / "clicks.yaml"
    spec.write_text(spec.read_text() + "rules: {gap_timeout: 3 hours}\n")
    wait_until(lambda: {RELEASE_NIGHT, "put_back"} <= platform.api.dag_ids(), 60, "the own DAGs")
    form = ListForm(platform)
    known = {str(run["dag_run_id"]) for run in platform.runs(form.dag)}
    run = platform.run_now(RELEASE_NIGHT)
    asked = run_of(platform, form, known)
    form.wait_for_plan(asked)
    assert platform.states(RELEASE_NIGHT, run)["upgrade"] == "deferred"
    form.answer(asked, "Approve")
    assert platform.wait_for_end(RELEASE_NIGHT, run, 1_200) == "success"
    assert {*platform.states(RELEASE_NIGHT, run).values()} == {"success"}
    (made,) = platform.savepoints("before the release")
    assert made.id == result(platform, RELEASE_NIGHT, run, "save", 0)
    (upgrade,) = read_operations(platform.home)
    assert (upgrade.verb, upgrade.outcome) == ("upgrade", Ending.DONE)
    assert upgrade.by.startswith("admin, in a list")
    assert result(platform, RELEASE_NIGHT, run, "wait_until_healthy", 0) == "healthy"
    assert platform.working_uid() != uid


@pytest.mark.parametrize(("answer", "state"), [("Reject", "skipped"), ("Approve", "success")])
def test_what_follows_a_change_depends_on_the_answer(platform: Platform, answer: str, state: str) -> None:
    (savepoint,) = {each.id for each in platform.savepoints("before the release")}
    form = OperateForm(platform)
    known, before = {str(run["dag_run_id"]) for run in platform.runs(form.dag)}, len(read_operations(platform.home))
    run = platform.run_now("put_back", savepoint=savepoint)
    asked = run_of(platform, form, known)
    shown = form.wait_for_plan(asked)
    assert savepoint in shown["subject"]
    assert run in shown["body"].replace("\\", "")
    form.answer(asked, answer)
    assert platform.wait_for_end("put_back", run, 300) == "success"
    wait_until(partial(lambda: platform.states("put_back", run)["after"] == state), 30, "the end of what follows")
    assert platform.states("put_back", run) == {"back": state, "after": state}
    assert len(read_operations(platform.home)) - before == (answer == "Approve")
