"""Stragglers of real drivers: a partition with most of the events, and a key with most of them.

Each is named after two batches in the heartbeat, in ``status`` and on the page, and told after five minutes.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from sessionizer.control.history.straggler import NAMED_AFTER, TOLD_AFTER_MS, Straggler, StragglerKind
from sessionizer.control.records.airflow_records import Health, Problem
from sessionizer.control.records.desired_state import Desired, DesiredState
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat
from sessionizer.control.records.process_records import request_stop
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.streams import find_view
from sessionizer.home.clock import epoch_ms
from sessionizer.page.reader import PageReader
from sessionizer_airflow.alerting.alert import AlertKind
from sessionizer_airflow.supervision.health import alert_on_change, examine_health
from support.processes.driver_process import DriverProcess
from support.streams.judged_stream import judged_stream
from support.streams.kafka_clicks import kafka_spec
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from support.processes.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

HEAVY_EVENTS = 2_000_000
STEPS, STEP_MS = 30, 20_000
"""Small batches after the heavy one. A step is less than the gap timeout, so that the heavy session stays open."""


def test_a_partition_with_most_of_the_events_is_named_and_told(
    tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    spec = kafka_spec(kafka_broker.bootstrap_servers, kafka_topic)
    spec["source"]["options"] = {"maxOffsetsPerTrigger": 500}
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(20_040):
        partition = 1 if number < 40 else 0
        producer.produce(kafka_topic, json.dumps(event(number)), f"u{number % 50}", partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0
    stage = Stage.set_up(tmp_path, spec)
    beat, straggler = beat_with_straggler(stage)
    assert (straggler.kind, straggler.name) == (StragglerKind.PARTITION, f"{kafka_topic}-0")
    assert (straggler.behind or 0) > 1_000
    assert_told(beat, straggler)


def test_a_key_with_most_of_the_events_is_named_and_told(tmp_path: Path) -> None:
    # on a busy machine a batch takes so long that its source would count as idle, which ends the heavy session
    stage = Stage.set_up(tmp_path, clicks_spec(max_events=None, max_bytes=2**30, idle_after=None))
    begun = epoch_ms() - STEPS * STEP_MS
    heavy = (
        f'{{"event_id": "h{row}", "user_id": "bot", "ts": {begun}, "type": "view"}}' for row in range(HEAVY_EVENTS)
    )
    write_file(stage, 0, heavy)
    for step in range(1, STEPS):
        users = [event(step * 50 + number) for number in range(50)]
        events = [{**each, "ts": begun + step * STEP_MS} for each in [*users, {**users[0], "user_id": "bot"}]]
        write_file(stage, step, map(json.dumps, events))
    beat, straggler = beat_with_straggler(stage)
    assert (straggler.kind, straggler.name) == (StragglerKind.KEY, "bot")
    assert_told(beat, straggler)


def write_file(stage: Stage, number: int, lines: Iterable[str]) -> None:
    """Write a file that is read after those with lower numbers. Spark orders files by the time of their change."""
    file, at = stage.feed / f"clicks-{number:02}.json", time.time() - 3_600 + number
    file.write_text("\n".join(lines))
    os.utime(file, (at, at))


def event(number: int) -> dict[str, Any]:
    return {"event_id": str(number), "user_id": f"u{number % 50}", "ts": epoch_ms(), "type": "view"}


def beat_with_straggler(stage: Stage) -> tuple[Heartbeat, Straggler]:
    """The heartbeat of a real driver that names a straggler. Status and page name it meanwhile."""
    home = stage.stream_home
    with DriverProcess.start(stage, "a", until="stopped") as driver:
        driver.wait_for(lambda: named(stage) is not None, "a straggler with a name", within_s=700)
        health = find_view(stage.home, stage.streams, stage.name).health
        (row,) = PageReader(stage.home, stage.streams).fleet()["streams"]
        found = named(stage)
        request_stop(home, "a", "a test")
        assert driver.wait() == 0, driver.said[-4_000:]
    assert found is not None
    (finding,) = [each for each in health.findings if each.rule == "straggler"]
    assert finding.word is HealthWord.WARNING, "it may be over with the next batch"
    assert found[1].name in finding.what
    assert row["health"]["word"] != HealthWord.HEALTHY
    return found


def named(stage: Stage) -> tuple[Heartbeat, Straggler] | None:
    beat = HEARTBEAT_FILE.of(stage.stream_home).read()
    return None if beat is None or beat.straggler is None else (beat, beat.straggler)


def assert_told(beat: Heartbeat, straggler: Straggler) -> None:
    assert straggler.batches >= NAMED_AFTER
    seen = DriverStatus(desired=Desired(DesiredState.RUNNING), heartbeat=beat, state=State.RUNNING)
    before, at = Health(worked_at=beat.at), straggler.since + TOLD_AFTER_MS
    judged = [judged_stream(seen, now, name="clicks").health for now in (at, at + 1)]
    assert examine_health(before, beat, judged[0], at).ailment is None
    after = examine_health(before, beat, judged[1], at + 1)
    assert after.ailment is Problem.STRAGGLER
    alert = alert_on_change("clicks", before, after, judged[1], beat, at + 1)
    assert alert is not None
    assert alert.kind is AlertKind.STRAGGLER
    assert straggler.name in alert.reason
    assert alert.what_to_do
