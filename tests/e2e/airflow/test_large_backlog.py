"""A backlog of twenty million events and limits far shorter than its first batch: a real driver, left alone at work."""

import os

import pytest

from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, read_launch
from sessionizer.control.records.supervision_records import SUPERVISION_FILE
from sessionizer.control.status.batch_progress import running_line
from sessionizer.control.status.driver_status import DriverStatus, Stall, State, read_driver
from sessionizer.control.timeouts import Timeouts
from sessionizer.home.clock import epoch_ms
from sessionizer_demo.local_airflow.api import wait_until
from sessionizer_demo.local_airflow.parts import family
from support.places import MAIN, known
from support.processes.live_airflow import Platform
from support.processes.ports import command_of
from support.streams.click_files import write_many_clicks

pytestmark = pytest.mark.long

STALE_MS, GRACE_MS = 30_000, 60_000
SETTINGS = {
    "SESSIONIZER_APPLICATION": MAIN,
    "SESSIONIZER_STALE_LIMIT": f"{STALE_MS // 1000} seconds",
    "SESSIONIZER_STARTUP_GRACE": f"{GRACE_MS // 1000} seconds",
    "SESSIONIZER_WATCH_LEASE": "60 seconds",
}
SPEC = """
name: {name}
description: {name} of a test
owner: tests
source:
  format: files
  path: feed
  encoding: parquet
  columns: "event_id string, user_id string, ts bigint"
  options: {{maxFilesPerTrigger: 1000}}
mapping: {{key: user_id, event_time: timestamp_millis(ts), event_id: event_id}}
trigger_interval: 1 second
"""
EVENTS = int(os.environ.get("SESSIONIZER_BACKLOG", "20_000_000"))
"""In one batch, that takes a small machine several minutes."""


def look(platform: Platform) -> DriverStatus:
    return read_driver(platform.home, epoch_ms(), Timeouts(GRACE_MS, STALE_MS))


def line(platform: Platform) -> str:
    beat = look(platform).heartbeat
    return (running_line(beat, epoch_ms()) if beat else None) or ""


def test_a_driver_is_never_replaced_while_its_batch_gets_on(platform: Platform) -> None:
    feed = platform.installation.platform_home / "feed"
    feed.mkdir(exist_ok=True)
    write_many_clicks(feed, EVENTS, files=4)
    platform.api.unpause(platform.dag)
    wait_until(lambda: look(platform).state is State.RUNNING, 180, "progress in the first batch")
    uid = look(platform).uid
    told = set()

    def first_batch_is_over() -> bool:
        seen = look(platform)
        assert (seen.uid, seen.state) == (uid, State.RUNNING), seen.stall
        told.add(line(platform))
        return seen.heartbeat is not None and seen.heartbeat.batch_id == 0

    wait_until(first_batch_is_over, 1_500, "the end of the first batch")
    beat = known(look(platform).heartbeat)
    assert (beat.batch_ms or 0) > max(2 * STALE_MS, GRACE_MS), "it was no long batch: try more events"
    assert any(" tasks" in what for what in told), told
    record = SUPERVISION_FILE.of(platform.home).read()
    assert record is None or record.failures == 0


def test_a_stuck_task_is_noticed_though_its_driver_beats(platform: Platform) -> None:
    """The second batch closes the sessions of the first: it takes long, too."""
    uid = platform.look().uid
    wait_until(lambda: line(platform).startswith("batch 1: "), 60, "the second batch at work")
    pid = known(known(read_launch(platform.home)).pid)
    workers = [process for process in family(pid) if "pyspark.worker" in command_of(process)]
    assert workers
    for worker in workers:
        worker.suspend()
    wait_until(lambda: look(platform).stall is Stall.NO_PROGRESS or platform.look().uid != uid, 90, "a stuck task")
    wait_until(lambda: look(platform).uid != uid, 120, "another driver")


def test_a_stop_is_heard_at_the_end_of_the_batch(platform: Platform) -> None:
    wait_until(lambda: look(platform).state is State.RUNNING, 240, "progress in the second batch, again")
    uid = known(platform.look().uid)
    platform.run_now(f"{platform.stream}.stop")
    wait_until(lambda: look(platform).state is State.STOPPING, 120, "the driver to hear of it")
    wait_until(lambda: EXIT_FILE.of(platform.home, uid).read() is not None, 1_500, "the end of its batch")
    ended = known(EXIT_FILE.of(platform.home, uid).read())
    assert (ended.outcome, ended.batch_id) == (ExitOutcome.STOPPED, 1)
