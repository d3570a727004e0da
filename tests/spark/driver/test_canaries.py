"""A lineage that does worse than the one before is left again by its own driver, if that was approved with the verb."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sessionizer.cli.inspect.batch_state import BatchState
from sessionizer.control.history.sample import NAMED_AFTER, TOLD_AFTER_MS, Straggler, StragglerKind
from sessionizer.control.lease import acquire
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, QUESTION_FILE, Heartbeat
from sessionizer.control.records.operation_record import Ending, OperationStage, pending_operation, read_operations
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, request_stop
from sessionizer.control.records.supervision_records import Desired, DesiredState, Health, Problem
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.errors import LineageLeft, LineageUnfit
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.lookup.find import ask_driver
from sessionizer.fleet.streams import find_view, one_stream
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import record_names
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import promote_lineage, read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer.page.reader import PageReader
from sessionizer.spark.driver.driver_loop import drive, roll_back_if_due
from sessionizer.spark.driver.options import DriverOptions, Until
from sessionizer.spark.state.commands import restores
from sessionizer.state.commands.restores import Restore
from sessionizer.state.lineages.committed_batch import find_retained_batch
from sessionizer.stream_spec.spec_folder import SpecFile
from sessionizer_airflow.alerting import AlertKind
from sessionizer_airflow.supervision.watch import alert_on_change, examine_health
from support.expected.driver_statuses import judged_stream
from support.expected.landed import assert_as_defined, landed
from support.places import known, opened
from support.processes.driver_process import DriverProcess, run_to_end
from support.processes.in_process import catch_up, drain, read_clicks
from support.processes.kafka_broker import KafkaBroker
from support.streams.click_files import write_aside, write_click_files
from support.streams.kafka_clicks import kafka_spec
from support.streams.stage import Stage, clicks_spec
from support.verbs.reseeded_stream import reseed
from support.verbs.restored_stream import Restored
from support.verbs.scripted_runner import Killed

REFUSING = {**clicks_spec()["mapping"], "event_time": "cast(null as timestamp)"}


def run(stage: Stage, uid: str) -> None:
    file, options = SpecFile(stage.name, stage.spec()), DriverOptions(uid, master="local[2]")
    drive(stage.stream_home, file, options, lambda _: None)


@dataclass
class Failed:
    """A stream whose second lineage refused all that it read: its driver has ended."""

    stage: Stage
    first: str
    second: str
    files: list[Path]


@pytest.fixture
def failed(spark: SparkSession, tmp_path: Path) -> Failed:
    stage, (_, files) = Stage.begun(tmp_path / "moved", clicks_spec()), write_aside(tmp_path, 3)
    stage.bring(files[:1])
    catch_up(spark, stage)
    first = str(stage.lineage)
    stage.write_spec({**clicks_spec(), "mapping": REFUSING})
    second = reseed(spark, stage, canary=CanaryTerms(batches=2, goes_back=True))
    stage.bring(files[1:])
    with pytest.raises(LineageLeft, match=r": 100% .* refused, \d% before"):
        run(stage, "unfit")
    stage.write_spec(clicks_spec())
    return Failed(stage, first, second, files)


def start_next(home: StreamHome, say: Callable[[str], None] = lambda _: None, *, times: int = 1) -> None:
    """A driver that starts, as far as it is one that may roll back."""
    lease = acquire(home, "next")
    for _ in range(times):
        roll_back_if_due(home, lease, DriverOptions("next", master="local[2]"), say)
    lease.release()


def test_a_lineage_that_fails_is_left_again_whoever_is_killed(failed: Failed, monkeypatch: pytest.MonkeyPatch) -> None:
    home = failed.stage.stream_home
    ended, canary = EXIT_FILE.of(home, "unfit").read(), read_canary(home, failed.second)
    assert ended is not None
    assert (ended.error_type, ended.terminal) == ("LineageLeft", False)
    assert canary is not None
    assert (canary.outcome, canary.before) == (CanaryOutcome.FAILED, failed.first)
    shown = one_stream(failed.stage.home, failed.stage.streams, failed.stage.name).canary_line
    assert failed.second in (shown or "")

    with monkeypatch.context() as patched:
        patched.setattr(restores, "activate_lineage", Mock(side_effect=Killed))
        with pytest.raises(Killed):
            run(failed.stage, "killed")
    begun = known(pending_operation(home))
    assert begun.step is OperationStage.TAKEN_BACK
    assert begun.by.endswith(f" {failed.second}")

    said: list[str] = []
    start_next(home, said.append, times=2)
    (line,) = [line for line in said if line.startswith("back in lineage")]
    assert failed.first in line
    (done,) = read_operations(home)
    assert (done.outcome, done.lineage_to, failed.stage.lineage) == (Ending.DONE, failed.first, failed.first)
    assert opened(home.lineage(failed.second).checkpoint).exists(), "the one that failed is kept"


@pytest.mark.long
def test_a_lineage_that_is_promoted_while_its_rollback_begins_is_kept(failed: Failed) -> None:
    """The driver has read the canary, and starts Spark."""
    home, said = failed.stage.stream_home, list[str]()

    def promote(line: str) -> None:
        said.append(line)
        if "rolling back" in line:
            promote_lineage(home, "ann")

    start_next(home, promote)
    assert said[-1].startswith("no rollback")
    (given_up,) = read_operations(home)
    assert (given_up.outcome, given_up.lineage_to, failed.stage.lineage) == (Ending.ABANDONED, None, failed.second)
    start_next(home, promote)
    assert len(said) == 2, "nor does the next driver roll back"


@pytest.mark.long
def test_a_driver_goes_back_and_on_as_if_the_lineage_had_never_been(
    spark: SparkSession, failed: Failed, tmp_path: Path
) -> None:
    said = run_to_end(failed.stage, "next")
    assert f"back in lineage {failed.first}" in said
    steady = Stage.begun(tmp_path / "steady", clicks_spec())
    steady.bring(failed.files)
    drain(spark, steady)
    assert landed(steady).sessions
    assert landed(failed.stage) == landed(steady)


@pytest.mark.long
def test_a_restored_lineage_that_fails_is_left_for_that_of_the_savepoint(spark: SparkSession, tmp_path: Path) -> None:
    stage, clicks = read_clicks(spark, tmp_path / "restored", 2)
    before = str(stage.lineage)
    done = Restored.saved(spark, stage, None, clicks).restore(command=Restore(canary=1, roll_back_if_failed=True))
    assert stage.lineage == done.lineage_to != before
    (stage.feed / "bad.json").write_bytes(b"no click\n" * 200)
    with pytest.raises(LineageLeft):
        run(stage, "unfit")
    start_next(stage.stream_home)
    assert stage.lineage == before
    (stage.feed / "bad.json").unlink()
    drain(spark, stage)
    assert_as_defined(stage, clicks)


@pytest.mark.long
def test_a_driver_whose_canary_fails_ends_with_the_error_and_its_remedy(spark: SparkSession, tmp_path: Path) -> None:
    stage, _ = read_clicks(spark, tmp_path / "moved", 1)
    reseed(spark, stage, canary=CanaryTerms(batches=1))
    (stage.feed / "bad.json").write_bytes(b"no click\n" * 200)
    said = run_to_end(stage, "unfit", code=LineageUnfit.exit_code)
    _, said, after = said.partition("\nremedy: ")
    assert said
    assert len(after.splitlines()) == 1, after


def test_a_driver_answers_while_it_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(idle_after=None))  # a late answer still has the session
    write_click_files(stage.feed, 4)
    home = stage.stream_home
    monkeypatch.setattr(type(spark), "stop", lambda _: None)  # the test goes on with the driver's Spark
    asked: list[tuple[str, dict[str, Any] | None]] = []

    def ask_and_stop() -> None:
        try:
            key = heaviest_key(stage)
            asked.extend((each, ask_driver(home, each, within_s=60)) for each in (key, "nobody"))
        finally:
            request_stop(home, "a", "a test")

    asker = threading.Thread(target=ask_and_stop)
    asker.start()
    options = DriverOptions(uid="a", master="local[2]", until=Until.STOPPED)
    drive(home, SpecFile(stage.name, stage.spec()), options, lambda _: None)
    asker.join()
    (key, found), (_, nobody) = asked
    assert found is not None
    assert nobody is not None
    assert (found["error"], nobody["error"], nobody["sessions"]) == (None, None, [])
    shown, _ = BatchState.of(spark, find_retained_batch(home, found["batch_id"], found["lineage"])).key(key)
    assert (found["key_group"], found["sessions"]) == (shown["key_group"], shown["sessions"])
    assert found["sessions"][0]["would_close_reason"]
    assert record_names(QUESTION_FILE.folder(home)) == []
    ended = known(EXIT_FILE.of(home, "a").require())
    assert ended.outcome is ExitOutcome.STOPPED


def heaviest_key(stage: Stage) -> str:
    """The key of the largest open session, when the driver has seen some."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        beat = HEARTBEAT_FILE.of(stage.stream_home).read()
        if beat is not None and beat.heaviest_keys and beat.batch_id is not None:
            return beat.heaviest_keys[0].key
        time.sleep(0.1)
    raise AssertionError("the driver named no key")


HEAVY_EVENTS = 2_000_000
STEPS, STEP_MS = 30, 20_000
"""Small batches after the heavy one. A step is less than the gap timeout, so that the heavy session stays open."""


@pytest.mark.long
@pytest.mark.timeout(900)
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


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_key_with_most_of_the_events_is_named_and_told(tmp_path: Path) -> None:
    # on a busy machine a batch takes so long that its source would count as idle, which ends the heavy session
    stage = Stage.set_up(tmp_path, clicks_spec(max_events=None, max_bytes=2**30, idle_after=None))
    begun = epoch_ms() - STEPS * STEP_MS
    bot = '{{"event_id": "h{}", "user_id": "bot", "ts": {}, "type": "view"}}'
    write_file(stage, 0, (bot.format(row, begun) for row in range(HEAVY_EVENTS)))
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
    alert = known(alert_on_change("clicks", before, after, judged[1], beat, at + 1))
    assert alert.kind is AlertKind.STRAGGLER
    assert straggler.name in alert.reason
    assert alert.what_to_do
