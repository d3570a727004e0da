"""What a person finds in a running Airflow at three in the morning: log, buttons, alarms."""

import os
import signal
from typing import Any

import httpx
import pytest

from sessionizer.causes.cause import KILLED
from sessionizer.control.records.process_records import read_launch
from sessionizer.control.records.supervision_records import PAUSE_FILE, DesiredState, read_desired
from sessionizer_demo.local_airflow.api import wait_until
from support.pages.page_user import OPERATE, OperateForm
from support.processes.file_notifier import told
from support.processes.live_airflow import Platform
from support.processes.ports import known

DAG = "clicks.supervise"
READER, STRANGER = "reader", "stranger"
SETTINGS = {
    "SESSIONIZER_WATCH_GRACE": "20 seconds",
    # the last one may log in, and has no role
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"admin:admin,{READER}:viewer,{STRANGER}:",
}
CONSUMER = """
from airflow.sdk import DAG, Asset
from airflow.providers.standard.operators.empty import EmptyOperator
from sessionizer_airflow import sessions_asset

with DAG("consumer", schedule=[{asset}], is_paused_upon_creation=True):
    EmptyOperator(task_id="use")
"""
LINES_A_DAY = 200
WATCHES_A_DAY = 6


@pytest.fixture(autouse=True)
def awake(platform: Platform) -> None:
    platform.api.unpause(DAG)


@pytest.mark.long
def test_a_quiet_watch_says_little(platform: Platform) -> None:
    platform.wait_for_driver(seconds=60)
    # The first one launches; the second one only watches.
    wait_until(lambda: len(ended(platform)) >= 2, 120, "two watches")
    lines = platform.log_of(ended(platform)[0])
    assert any("watching driver" in line for line in lines)
    assert len(lines) * WATCHES_A_DAY <= LINES_A_DAY, "\n".join(lines)


def test_the_list_of_runs_says_what_each_was_asked_for_and_what_came_of_it(platform: Platform) -> None:
    form = OperateForm(platform)
    # neither a savepoint nor a time: refused before anything is started
    run = form.ask("restore", why="a test")
    assert form.wait_for_end(run, 120) == "failed"
    assert form.note(run).endswith("→ failed at read_form")
    task = f"/api/v2/dags/{OPERATE}/dagRuns/{run}/taskInstances/read_form"
    assert platform.api.call("GET", task)["rendered_map_index"] == "restore clicks"


def test_a_stop_needs_neither_a_reason_nor_to_be_unpaused(platform: Platform) -> None:
    found = platform.api.call("GET", "/api/v2/dags/visits.stop/details")
    assert not found["is_paused"]
    assert "null" in found["params"]["why"]["schema"]["type"], "the form would not let go without it"


def test_a_misspelt_field_of_a_run_changes_nothing_and_a_reason_has_its_user(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    for dag, conf in (("clicks.stop", {"wy": "tests"}), ("clicks.start", {"aply": True}), ("clicks.report", {"x": 1})):
        assert platform.wait_for_end(dag, platform.run_now(dag, **conf)) == "failed"
    platform.api.set_paused("clicks.report", paused=True)
    assert platform.working_uid() == uid
    assert platform.wait_for_end("visits.stop", platform.run_now("visits.stop", why="tests")) == "success"
    desired = read_desired(platform.of("visits").home)
    assert (desired.state, desired.by, desired.why) == (DesiredState.STOPPED, "admin (Airflow)", "tests")


@pytest.mark.long
def test_the_name_of_an_asset_that_another_dag_has_is_reported_until_it_refers_to_it(platform: Platform) -> None:
    """The DAG was there before the stream, so that Airflow gave it the name."""
    root, late = platform.installation.root, platform.of("late")
    consumer = root / "dags" / "consumer.py"
    consumer.write_text(CONSUMER.format(asset='Asset("late.sessions")'))
    wait_until(lambda: "consumer" in platform.api.dag_ids(), 60, "the consumer")
    spec = (root / "specs" / "visits.yaml").read_text()
    (root / "specs" / "late.yaml").write_text(spec.replace("visits", "late"))
    wait_until(lambda: "late.supervise" in platform.api.dag_ids(), 90, "its DAGs")
    platform.api.unpause("late.supervise")
    late.wait_for_driver()
    orphans = "sessionizer.orphans"
    assert platform.wait_for_end(orphans, platform.run_now(orphans)) == "failed"
    assert late.task(orphans, platform.runs(orphans)[0]["dag_run_id"], "report_assets")["state"] == "failed"
    assert rule_on_the_page(late) == "asset_taken"
    consumer.write_text(CONSUMER.format(asset='sessions_asset("late")'))
    platform.api.unpause("consumer")
    wait_until(lambda: bool(platform.runs("consumer")), 120, "an event that the stream's asset gives its consumer")
    assert platform.wait_for_end(orphans, platform.run_now(orphans)) == "success"
    assert rule_on_the_page(late) == "working"
    platform.api.set_paused("consumer", paused=True)
    platform.run_now("late.stop")
    wait_until(lambda: not late.look().state.is_live, 60, "the end of its driver")
    platform.api.set_paused("late.supervise", paused=True)


def test_the_buttons_open_pages_for_those_who_may(platform: Platform) -> None:
    run = platform.runs(DAG)[0]["dag_run_id"]
    answer = platform.api.call("GET", f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/supervise/links")
    links = answer["extra_links"]
    assert set(links) == {"Driver log", "Spark UI", "Tables"}
    for link in links.values():
        assert status_of(link, {}) == 401
        assert status_of(link, cookie(platform.api.token())) in {200, 307}


@pytest.mark.parametrize("page", ["log", "spark-ui", "tables"])
def test_a_page_is_refused_to_a_user_without_rights_on_the_dag(page: str, platform: Platform) -> None:
    link = f"{platform.installation.address}/sessionizer/{DAG}/{page}"
    assert status_of(link, cookie(platform.token_of(READER))) in {200, 307}
    refused = httpx.get(link, headers=cookie(platform.token_of(STRANGER)), timeout=20)
    assert refused.status_code == 403
    assert str(platform.home.root) not in refused.text


def test_a_failure_is_told_with_the_last_words_of_the_driver(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    launch = read_launch(platform.home)
    assert launch is not None
    with open(launch.log, "a") as log:  # noqa: PTH123 - as its driver would
        log.write("password=hunter2\nits last words\n")
    os.killpg(known(launch.pid), signal.SIGKILL)
    platform.wait_for_driver(other_than=uid)
    (alert,) = [alert for alert in alerts(platform) if alert["kind"] == "replaced"]
    assert (alert["stream"], alert["lineage"]) == ("clicks", "of-the-script")
    assert alert["batch_id"] > 0
    assert "vanished" in alert["reason"]
    lines = platform.log_of(platform.runs(DAG)[0]["dag_run_id"], at={"warning"})
    assert any(line.endswith(f"{uid} | its last words") for line in lines)
    assert any(f"What to do: {KILLED.remedy}" in line for line in lines)
    assert not any("hunter2" in line for line in lines)


@pytest.mark.long
def test_people_are_told_when_the_triggerer_is_dead(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    platform.wait_for_watch()
    run = platform.watch()
    platform.parts.kill("triggerer")
    try:
        wait_until(lambda: bool(unwatched(platform, run)), 120, "the alert on a missed deadline")
        (alert,) = unwatched(platform, run)
        assert alert["stream"] == "clicks"
        assert "triggerer" in alert["what_to_do"]
    finally:
        platform.parts.start("triggerer")
    platform.wait_for_watch(other_than=run, seconds=120)
    assert platform.working_uid() == uid, "the stream needed nobody"


def test_a_driver_whose_spec_is_gone_turns_the_dag_of_orphans_red(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    spec = platform.installation.root / "specs" / "clicks.yaml"
    spec.rename(spec.with_suffix(".away"))
    try:
        run = platform.run_now("sessionizer.orphans")
        wait_until(lambda: state_of(platform, run) == "failed", 60, "a failed run")
        assert [alert["stream"] for alert in alerts(platform) if alert["kind"] == "orphaned"] == ["clicks"]
        assert platform.working_uid() == uid, "it was ended"
    finally:
        spec.with_suffix(".away").rename(spec)


def test_a_paused_supervisor_makes_a_stream_degraded(platform: Platform) -> None:
    """Airflow's own page knows it at once, every other reader when the DAG of orphans has run."""
    platform.wait_for_driver()
    platform.api.set_paused(DAG, paused=True)
    try:
        wait_until(lambda: rule_on_the_page(platform) == "paused", 10, "the page to say so")
        run = platform.run_now("sessionizer.orphans")
        wait_until(lambda: state_of(platform, run) in {"success", "failed"}, 90, "the look for orphans")
        noted = PAUSE_FILE.of(platform.home).read()
        assert noted is not None
        assert noted.paused
    finally:
        platform.api.unpause(DAG)


def rule_on_the_page(platform: Platform) -> str:
    rows = platform.api.call("GET", "/streams-page/api/fleet")["streams"]
    return next(str(row["health"]["rule"]) for row in rows if row["stream"] == platform.stream)


def ended(platform: Platform) -> list[str]:
    return [run["dag_run_id"] for run in platform.runs(DAG) if run["state"] == "success"]


def state_of(platform: Platform, run: str) -> str:
    runs: list[dict[str, Any]] = platform.runs("sessionizer.orphans")
    return str(next(found["state"] for found in runs if found["dag_run_id"] == run))


def unwatched(platform: Platform, run: str) -> list[dict[str, Any]]:
    """What was told of `run`: on a slow machine one before it may have been late, too."""
    return [alert for alert in alerts(platform) if alert["kind"] == "unwatched" and run in alert["reason"]]


def alerts(platform: Platform) -> list[dict[str, Any]]:
    return told(platform.installation.root / "told.jsonl")


def cookie(token: str) -> dict[str, str]:
    return {"Cookie": f"_token={token}"}


def status_of(link: str, headers: dict[str, str]) -> int:
    """Of the page itself, wherever it sends the reader."""
    return httpx.get(link, headers=headers, timeout=20, follow_redirects=False).status_code
