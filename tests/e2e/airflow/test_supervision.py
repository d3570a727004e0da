"""Supervision with a running Airflow: nothing mocked but Spark's work. The tests follow one stream's life in order.

The later ones are of what a person finds at three in the morning: log, buttons, alarms.

A long run has only the long ones: each of them starts the stream, or finds it as a long one before it has left it.
"""

import os
import pathlib
import signal
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from sessionizer.causes.cause import KILLED
from sessionizer.control.records.process_records import EXIT_FILE, identify, is_alive, read_launch, request_stop
from sessionizer.control.records.supervision_records import (
    PAUSE_FILE,
    DesiredState,
    SupervisionRecord,
    read_desired,
    write_desired,
)
from sessionizer.control.status.driver_status import State
from sessionizer.home.clock import epoch_ms
from sessionizer_demo.local_airflow.api import wait_until
from sessionizer_demo.local_airflow.parts import family, left_behind
from support.expected.driver_statuses import recorded
from support.faults.airflow_faults import FAULTS, batches, freeze_driver, kill_driver, survive
from support.faults.one_writer import OneWriterWatch
from support.pages.page_user import OPERATE, OperateForm
from support.places import known
from support.processes.file_notifier import told
from support.processes.live_airflow import TASK, Platform, tolerant

BUDGET = 3
READER, STRANGER = "reader", "stranger"
SETTINGS = {
    "SESSIONIZER_RESTART_BUDGET": str(BUDGET),
    "SESSIONIZER_WATCH_GRACE": "20 seconds",
    # the last one may log in, and has no role
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"admin:admin,{READER}:viewer,{STRANGER}:",
}
"""For the fixture `platform`."""

NOTICED_SECONDS = 60.0
"""On a busy machine, where a worker takes long to start. Usually it is 10 seconds."""
RUNNING_AGAIN_SECONDS = 180.0
STOPPED_SECONDS = 90.0
SURVIVED_SECONDS = 240.0

CONSUMER = """
from airflow.sdk import DAG, Asset
from airflow.providers.standard.operators.empty import EmptyOperator
from sessionizer_airflow import sessions_asset

with DAG("consumer", schedule=[{asset}], is_paused_upon_creation=True):
    EmptyOperator(task_id="use")
"""
LINES_A_DAY = 200
WATCHES_A_DAY = 6


def test_dag_run_starts_a_driver_and_defers(platform: Platform) -> None:
    platform.api.unpause(platform.dag)
    platform.wait_for_driver()
    platform.wait_for_watch()


def test_the_mark_of_an_installation_is_on_all_its_processes(platform: Platform) -> None:
    """Those that give themselves a title, too: by the mark a demo finds what it has to end."""

    def overlooked() -> bool:
        started = {process for part in platform.parts.running.values() for process in family(part.pid)}
        # what parses DAG files and runs tasks comes and goes
        identities = [identify(process.pid) for process in started - set(left_behind(platform.installation))]
        return any(identity and is_alive(identity) for identity in identities)

    wait_until(lambda: not overlooked(), 30, "the mark on each process, also on one that has just been started")


def test_killed_driver_runs_again(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    kill_driver(platform)
    wait_until(lambda: has_noticed(platform, uid), NOTICED_SECONDS, "the supervisor to notice")
    platform.wait_for_driver(other_than=uid, seconds=RUNNING_AGAIN_SECONDS)


def test_one_driver_survives_the_triggerer_and_the_scheduler(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    watch = platform.watch()
    for part in ("triggerer", "scheduler"):
        platform.parts.kill(part)
        platform.parts.start(part)
    # The next watch can only begin when both work again: the same driver is adopted by it.
    platform.wait_for_watch(other_than=watch, seconds=SURVIVED_SECONDS)
    assert platform.working_uid() == uid


def test_landed_sessions_start_the_report(platform: Platform) -> None:
    platform.api.unpause("clicks.report")
    wait_until(lambda: "success" in {run["state"] for run in platform.runs("clicks.report")}, 300, "a report")
    asset = platform.api.call("GET", "/api/v2/assets?name_pattern=clicks.sessions")["assets"][0]
    events = platform.api.call("GET", f"/api/v2/assets/events?asset_id={asset['id']}")["asset_events"]
    payload = events[0]["extra"]["payload"]
    assert payload["stream"] == "clicks"
    assert payload["delta_version"] >= 0
    assert payload["rows"] > 0
    assert payload["watermark_ms"] > 0
    platform.api.set_paused("clicks.report", paused=True)


def test_clearing_the_task_starts_another_driver(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    platform.wait_for_watch()
    platform.clear()
    platform.wait_for_driver(other_than=uid)
    assert platform.has_stopped(uid)


def test_terminal_error_pauses_the_dag_until_a_person_lets_it_go_on(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    platform.behave("refuse")
    request_stop(platform.home, uid, "test")
    platform.wait_for_pause()
    assert platform.runs(platform.dag)[0]["state"] == "failed"
    platform.behave("steady")
    platform.api.unpause(platform.dag)
    platform.wait_for_driver(other_than=uid)


def test_marked_failed_while_the_driver_works(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    platform.wait_for_watch()
    platform.mark_failed()
    platform.wait_for_pause()
    platform.wait_until_stopped(uid, STOPPED_SECONDS)
    assert_stands_by(platform)


@pytest.mark.long
def test_marked_failed_while_the_driver_starts(platform: Platform) -> None:
    platform.behave("mute")
    start(platform)
    wait_until(lambda: platform.look().state is State.STARTING, 60, "a driver that starts")
    platform.wait_for_watch()
    uid = known(platform.look().uid)
    platform.mark_failed()
    platform.wait_for_pause()
    platform.wait_until_stopped(uid, STOPPED_SECONDS)
    assert_stands_by(platform)


@pytest.mark.long
def test_marked_failed_while_backing_off(platform: Platform) -> None:
    platform.behave("crash")
    start(platform)
    # The last backoff is the longest: there is time to act in it.
    wait_until(lambda: recorded(platform.home).failures == BUDGET, 300, "a crash loop")
    platform.wait_for_watch()
    history = recorded(platform.home)
    platform.mark_failed()
    platform.wait_for_pause()
    wait_until(lambda: read_desired(platform.home).state is DesiredState.STOPPED, STOPPED_SECONDS, "what people want")
    wait_until(lambda: epoch_ms() > end_of_backoff(history), 120, "the backoff to end")
    assert_stands_by(platform)
    assert last_launch(platform) == history.counted_uid


@pytest.mark.long
def test_a_run_marked_failed_stops_the_stream_and_one_of_the_past_does_not(platform: Platform) -> None:
    platform.behave("steady")
    start(platform)
    uid = platform.wait_for_driver()
    platform.wait_for_watch()
    past, *_ = [run["dag_run_id"] for run in platform.runs(platform.dag) if run["state"] == "failed"]
    mark_run(platform, past, "success")
    assert read_desired(platform.home).state is DesiredState.RUNNING
    mark_run(platform, platform.watch(), "failed")
    platform.wait_until_stopped(uid, STOPPED_SECONDS)
    assert not platform.is_paused()
    assert_stands_by(platform)


@pytest.mark.long
def test_a_run_marked_failed_while_its_task_waits_for_a_worker(platform: Platform) -> None:
    start(platform)
    uid, before = platform.wait_for_driver(), platform.watch()
    set_slots(platform, 0)
    try:
        mark_run(platform, before, "success")
        wait_until(lambda: platform.watch() != before, 60, "the next run")
        write_desired(platform.home, DesiredState.RUNNING, by="a test", why="")
        waiting = platform.watch()
        mark_run(platform, waiting, "failed")
        assert read_desired(platform.home).state is DesiredState.STOPPED
        assert platform.task(platform.dag, waiting, TASK)["state"] == "skipped", "its task was at work"
    finally:
        set_slots(platform, 128)
    platform.wait_until_stopped(uid, STOPPED_SECONDS)
    assert_stands_by(platform)


@pytest.mark.long
def test_crash_loop_gives_up_and_goes_on_after_one_click(platform: Platform) -> None:
    platform.behave("crash")
    start(platform)
    wait_until(platform.is_paused, 300, "the DAG to pause itself")
    failed = platform.runs(platform.dag)[0]
    assert failed["state"] == "failed"
    assert failed["dag_run_id"] == platform.watch()
    reason = f"{BUDGET + 1} failures in a row"
    tries = platform.task(platform.dag, failed["dag_run_id"], TASK)["try_number"]
    lines = platform.log_of(failed["dag_run_id"], tries, at={"error"})
    assert any("giving up: " + reason in line for line in lines), lines
    assert lines[-1].startswith("What to do: ")
    assert "unpause" in lines[-1]
    (alert,) = [alert for alert in told(platform.told) if alert["kind"] == "gave_up" and reason in alert["reason"]]
    assert alert["what_to_do"]
    platform.behave("steady")
    platform.api.unpause(platform.dag)
    uid = platform.wait_for_driver()
    assert recorded(platform.home).failures == 0
    wait_until(lambda: batches(platform) > 1, 30, "its work")
    assert platform.working_uid() == uid


@pytest.mark.long
def test_one_driver_survives_the_death_of_its_task(platform: Platform) -> None:
    with OneWriterWatch(platform.home) as promise:
        survive(platform, FAULTS["kill the task"], SURVIVED_SECONDS)
    promise.assert_kept()


def test_start_and_stop_dags_steer_the_stream_and_the_list_of_tasks_says_what_it_is_at(platform: Platform) -> None:
    platform.behave("steady")
    start(platform)
    uid = platform.wait_for_driver()
    wait_until(lambda: labels(platform) == ["healthy"], 180, "the label of a stream that works")
    platform.run_now("clicks.stop")
    wait_until(lambda: EXIT_FILE.of(platform.home, uid).read() is not None, 120, "the driver's end")
    assert_stands_by(platform)
    wait_until(lambda: labels(platform) == ["healthy: stopped"], 180, "that of one that is stopped")
    platform.run_now("clicks.start")
    platform.wait_for_driver(other_than=uid)
    wait_until(lambda: labels(platform) == ["healthy"], 180, "the stream to work again")


@pytest.mark.long
def test_frozen_driver_is_replaced(platform: Platform) -> None:
    """The other stream's: no test before this one has started it, or has used up its restarts."""
    other = platform.of("visits")
    other.behave("steady")
    other.api.unpause(other.dag)
    uid = other.wait_for_driver()
    lease = known(other.look().lease)
    freeze_driver(other)
    other.wait_for_driver(other_than=uid, seconds=30.0 + NOTICED_SECONDS + RUNNING_AGAIN_SECONDS)
    assert not pathlib.Path(f"/proc/{lease.pid}").exists()


@pytest.mark.long
def test_a_quiet_watch_says_little(platform: Platform) -> None:
    platform.wait_for_driver()
    before = len(ended(platform))
    # The first one may launch; the second one only watches.
    wait_until(lambda: len(ended(platform)) >= before + 2, 120, "two watches")
    lines = platform.log_of(ended(platform)[0])
    assert any("watching driver" in line for line in lines)
    assert len(lines) * WATCHES_A_DAY <= LINES_A_DAY, "\n".join(lines)


def test_the_list_of_runs_says_what_each_was_asked_for_and_what_came_of_it(platform: Platform) -> None:
    form = OperateForm(platform)
    # neither a savepoint nor a time: refused before anything is started
    run = form.ask("restore", why="a test")
    assert form.wait_for_end(run, 120) == "failed"
    assert form.note(run).endswith("→ failed at read_form")
    assert platform.task(OPERATE, run, "read_form")["rendered_map_index"] == "restore clicks"


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
    assert late.health()["rule"] == "asset_taken"
    consumer.write_text(CONSUMER.format(asset='sessions_asset("late")'))
    platform.api.unpause("consumer")
    wait_until(lambda: bool(platform.runs("consumer")), 120, "an event that the stream's asset gives its consumer")
    assert platform.wait_for_end(orphans, platform.run_now(orphans)) == "success"
    assert late.health()["rule"] == "working"
    platform.api.set_paused("consumer", paused=True)
    platform.run_now("late.stop")
    wait_until(lambda: not late.look().state.is_live, 60, "the end of its driver")
    platform.api.set_paused("late.supervise", paused=True)


def test_the_buttons_open_pages_for_those_who_may(platform: Platform) -> None:
    run = platform.runs(platform.dag)[0]["dag_run_id"]
    links = platform.task(platform.dag, run, f"{TASK}/links")["extra_links"]
    assert set(links) == {"Driver log", "Spark UI", "Tables"}
    for link in links.values():
        assert status_of(link, {}) == 401
        assert status_of(link, cookie(platform.api.token())) in {200, 307}


@pytest.mark.parametrize("page", ["log", "spark-ui", "tables"])
def test_a_page_is_refused_to_a_user_without_rights_on_the_dag(page: str, platform: Platform) -> None:
    link = f"{platform.installation.address}/sessionizer/{platform.dag}/{page}"
    assert status_of(link, cookie(platform.token_of(READER))) in {200, 307}
    refused = httpx.get(link, headers=cookie(platform.token_of(STRANGER)), timeout=60)
    assert refused.status_code == 403
    assert str(platform.home.root) not in refused.text


def test_a_failure_is_told_with_the_last_words_of_the_driver(platform: Platform) -> None:
    uid, before, watch = platform.wait_for_driver(), len(told(platform.told)), platform.watch()
    launch = known(read_launch(platform.home))
    with open(launch.log, "a") as log:  # noqa: PTH123 - as its driver would
        log.write("password=hunter2\nits last words\n")
    os.killpg(known(launch.pid), signal.SIGKILL)
    platform.wait_for_driver(other_than=uid)
    (alert,) = [alert for alert in told(platform.told)[before:] if alert["kind"] == "replaced"]
    assert (alert["stream"], alert["lineage"]) == ("clicks", "of-the-script")
    assert alert["batch_id"] > 0
    assert "vanished" in alert["reason"]
    lines: list[str] = []

    def is_in_a_log() -> bool:
        """The watch that told it may be over by now, and may have been the one after that of before."""
        runs = [run["dag_run_id"] for run in platform.runs(platform.dag)]
        lines[:] = [line for run in runs[: runs.index(watch) + 1] for line in platform.log_of(run, at={"warning"})]
        is_told = any(line.endswith(f"{uid} | its last words") for line in lines)
        return is_told and any(f"What to do: {KILLED.remedy}" in line for line in lines)

    wait_until(tolerant(is_in_a_log), 120, "its last words and what to do")
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
        assert platform.wait_for_end("sessionizer.orphans", run) == "failed"
        assert [alert["stream"] for alert in told(platform.told) if alert["kind"] == "orphaned"] == ["clicks"]
        assert platform.working_uid() == uid, "it was ended"
    finally:
        spec.with_suffix(".away").rename(spec)


def test_a_paused_supervisor_makes_a_stream_degraded(platform: Platform) -> None:
    """Airflow's own page knows it at once, every other reader when the DAG of orphans has run."""
    platform.wait_for_driver()
    platform.api.set_paused(platform.dag, paused=True)
    try:
        wait_until(lambda: platform.health()["rule"] == "paused", 60, "the page to say so")
        platform.wait_for_end("sessionizer.orphans", platform.run_now("sessionizer.orphans"))
        assert known(PAUSE_FILE.of(platform.home).read()).paused
    finally:
        platform.api.unpause(platform.dag)


def has_noticed(platform: Platform, uid: str) -> bool:
    """The failure is on record, or a successor is on its way."""
    return recorded(platform.home).counted_uid == uid or last_launch(platform) != uid


def last_launch(platform: Platform) -> str | None:
    launch = read_launch(platform.home)
    return launch.uid if launch else None


def start(platform: Platform) -> None:
    platform.api.unpause(platform.dag)
    assert platform.wait_for_end("clicks.start", platform.run_now("clicks.start")) == "success"


def set_slots(platform: Platform, slots: int) -> None:
    """With none, tasks wait."""
    pool = {"pool": "default_pool", "slots": slots, "include_deferred": False}
    platform.api.call("PATCH", "/api/v2/pools/default_pool?update_mask=slots", pool)


def mark_run(platform: Platform, run: str, state: str) -> None:
    platform.api.call("PATCH", f"/api/v2/dags/{platform.dag}/dagRuns/{quote(run)}", {"state": state})


def end_of_backoff(history: SupervisionRecord) -> int:
    """With the time that its end would take to be noticed."""
    return history.last_failure_ms + (2_000 << (history.failures - 1)) + int(NOTICED_SECONDS * 1000)


def assert_stands_by(platform: Platform) -> None:
    """The stream is not wanted, the supervisor has seen so, and no process of a driver is left."""
    assert read_desired(platform.home).state is DesiredState.STOPPED
    launch, lease = read_launch(platform.home), platform.look().lease
    # Unpausing alone starts nothing.
    platform.api.unpause(platform.dag)
    platform.wait_for_watch()
    processes = [record.process for record in (launch, lease) if record is not None and record.process is not None]
    wait_until(lambda: not any(is_alive(process) for process in processes), STOPPED_SECONDS, "the driver's end")
    # Whoever watches now began to do so after that; a launch would have come before.
    assert read_launch(platform.home) == launch


def labels(platform: Platform) -> list[str]:
    listed = "/api/v2/dags/~/dagRuns/~/taskInstances?state=deferred"
    return [task["rendered_map_index"] for task in platform.api.call("GET", listed)["task_instances"]]


def ended(platform: Platform) -> list[str]:
    return [run["dag_run_id"] for run in platform.runs(platform.dag) if run["state"] == "success"]


def unwatched(platform: Platform, run: str) -> list[dict[str, Any]]:
    """Return the alerts about `run`: on a slow machine a run before it may have been late, too."""
    return [alert for alert in told(platform.told) if alert["kind"] == "unwatched" and run in alert["reason"]]


def cookie(token: str) -> dict[str, str]:
    return {"Cookie": f"_token={token}"}


def status_of(link: str, headers: dict[str, str]) -> int:
    """Return the status of the page itself, wherever it sends the reader."""
    return httpx.get(link, headers=headers, timeout=60, follow_redirects=False).status_code
