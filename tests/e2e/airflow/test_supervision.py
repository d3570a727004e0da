"""Supervision with a running Airflow: nothing mocked but Spark's work. The tests follow one stream's life in order."""

from __future__ import annotations

import os
import pathlib
import signal
import time
from typing import TYPE_CHECKING

from sessionizer.control.desired_state import DesiredState, read_desired
from sessionizer.control.exit_record import Outcome, read_exit
from sessionizer.control.stop_marker import request_stop
from sessionizer_airflow.launching.launch_record import read_launch
from sessionizer_airflow.local_airflow.api import wait_until

if TYPE_CHECKING:
    from live_airflow import Platform

DAG = "clicks.supervise"
NOTICED_SECONDS = 15.0
RUNNING_AGAIN_SECONDS = 60.0
STALE_SECONDS = 10.0


def test_dag_run_starts_a_driver_and_defers(platform: Platform) -> None:
    platform.api.unpause(DAG)
    platform.wait_for_driver(seconds=60)
    wait_until(lambda: is_deferred(platform), 20, "the task to hand over to the triggerer")


def test_killed_driver_runs_again(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    launch = read_launch(platform.home)
    assert launch is not None
    assert launch.pid is not None
    os.killpg(launch.pid, signal.SIGKILL)
    platform.wait_for_driver(other_than=uid, seconds=NOTICED_SECONDS + RUNNING_AGAIN_SECONDS)


def test_frozen_driver_is_replaced(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    lease = platform.look().lease
    assert lease is not None
    assert lease.pid is not None
    os.kill(lease.pid, signal.SIGSTOP)
    platform.wait_for_driver(other_than=uid, seconds=STALE_SECONDS + NOTICED_SECONDS + RUNNING_AGAIN_SECONDS)
    assert not pathlib.Path(f"/proc/{lease.pid}").exists()


def test_one_driver_survives_the_triggerer_and_the_scheduler(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    runs = len(platform.runs(DAG))
    for part in ("triggerer", "scheduler"):
        platform.parts.kill(part)
        platform.parts.start(part)
    # The next watch can only begin when both work again: the same driver is adopted by it.
    wait_until(lambda: len(platform.runs(DAG)) > runs and is_deferred(platform), 120, "the next watch")
    assert platform.working_uid() == uid


def test_landed_sessions_start_the_report(platform: Platform) -> None:
    platform.api.unpause("clicks.report")
    wait_until(lambda: succeeded(platform, "clicks.report") > 0, 90, "a report")
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
    wait_until(lambda: is_deferred(platform), 30, "the watch")
    cleared = {"dry_run": False, "task_ids": ["supervise"], "only_failed": False, "reset_dag_runs": True}
    run = platform.runs(DAG)[0]["dag_run_id"]
    platform.api.call("POST", f"/api/v2/dags/{DAG}/clearTaskInstances", {**cleared, "dag_run_id": run})
    platform.wait_for_driver(other_than=uid)
    record = read_exit(platform.home, uid)
    assert record is not None
    assert record.outcome is Outcome.DRAINED


def test_terminal_error_pauses_the_dag_until_a_person_lets_it_go_on(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    platform.behave("refuse")
    request_stop(platform.home, uid, "test")
    wait_until(lambda: is_paused(platform), 60, "the DAG to pause itself")
    latest = platform.runs(DAG)[0]
    assert latest["state"] == "failed"
    platform.behave("steady")
    platform.api.unpause(DAG)
    platform.wait_for_driver(other_than=uid)


def test_marking_the_task_failed_drains_the_stream_for_good(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    wait_until(lambda: is_deferred(platform), 30, "the watch")
    run = platform.runs(DAG)[0]["dag_run_id"]
    platform.api.call("PATCH", f"/api/v2/dags/{DAG}/dagRuns/{run}/taskInstances/supervise", {"new_state": "failed"})
    wait_until(lambda: read_exit(platform.home, uid) is not None, 20, "the driver's end")
    record = read_exit(platform.home, uid)
    assert record is not None
    assert record.outcome is Outcome.DRAINED
    assert read_desired(platform.home).state is DesiredState.STOPPED
    time.sleep(8)
    assert platform.working_uid() is None, "launched again"


def test_start_and_stop_dags_steer_the_stream(platform: Platform) -> None:
    platform.api.unpause(DAG)
    platform.run_now("clicks.start")
    uid = platform.wait_for_driver(seconds=60)
    platform.run_now("clicks.stop")
    wait_until(lambda: read_exit(platform.home, uid) is not None, 30, "the driver's end")
    assert platform.working_uid() is None


def is_deferred(platform: Platform) -> bool:
    running = [run for run in platform.runs(DAG) if run["state"] == "running"]
    return bool(running) and platform.task(DAG, running[0]["dag_run_id"], "supervise")["state"] == "deferred"


def is_paused(platform: Platform) -> bool:
    return bool(platform.api.call("GET", f"/api/v2/dags/{DAG}")["is_paused"])


def succeeded(platform: Platform, dag_id: str) -> int:
    return sum(run["state"] == "success" for run in platform.runs(dag_id))
