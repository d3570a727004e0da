"""A stream that goes on with another source, or without events that its source has lost. Nothing else is lost."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import EVENTS, read_planned_batch
from sessionizer.control.execution import execute
from sessionizer.core.definition.event import Batch
from sessionizer.errors import EventsGone, EventsUnread, InvalidSpec, PlanChanged, QueryFailed, SourceReplaced
from sessionizer.home.clock import epoch_ms
from sessionizer.launch.driver_environment import plain
from sessionizer.lineage.excluded_ranges import Records
from sessionizer.lineage.kept_spec import read_source_ids
from sessionizer.spark.failures.query_failure import classify_failure
from sessionizer.spark.ingest.topics import oldest_offsets
from sessionizer.spark.state.commands.moves import LossRunner, SwitchRunner
from sessionizer.spark.state.commands.restores import RollbackRunner, SparkFacts
from sessionizer.state.commands.moves import LossPlan, Start, Switch, SwitchPlan
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.return_plans import plan_restore
from sessionizer.stream_spec.document.source import KafkaSource
from sessionizer_demo.feed.generator import Row
from sessionizer_demo.feed.rows.kinds import QUARANTINE_REASONS
from support.expected.landed import assert_landed, event_of, landed, table_rows
from support.faults.bad_clicks import line
from support.faults.spoiled_streams import DELTA_CLICKS, a_commit, log_truncated
from support.processes.in_process import begin_batch, catch_up, drain
from support.processes.kafka_broker import KafkaBroker
from support.stores.control_fixtures import AND_ON_HDFS_IN_THE_LONG_RUN
from support.streams.click_files import known_rows
from support.streams.kafka_clicks import click, send, topic_spec
from support.streams.stage import CLICK_COLUMNS, Stage, clicks_spec, topic_source
from support.streams.strategies import drain_at
from support.verbs.begun_restore import approved, carry_out
from support.verbs.restored_stream import save

DELIVERED_WITHIN_S = 60.0
ROWS, CUT, OVERLAP = 600, 300, 60
"""The last tenth of what the old source brings comes from the new one once more."""


@pytest.fixture(scope="module")
def other_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("other-broker")) as broker:
        yield broker


def produce(broker: KafkaBroker, topic: str, rows: Sequence[Row], partition: Callable[[int], int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})
    for number, row in enumerate(rows):
        producer.produce(topic, row.value, key=row.key, partition=partition(number))
    assert producer.flush(DELIVERED_WITHIN_S) == 0


def write_file(stage: Stage, name: str, rows: Sequence[Row]) -> None:
    hidden = stage.feed / f".{name}"
    stage.feed.mkdir(parents=True, exist_ok=True)
    hidden.write_bytes(b"\n".join(row.value for row in rows))
    shutil.move(hidden, stage.feed / name)


def stream_of(source: dict[str, Any], root: Path, data: str | None = None) -> Stage:
    return Stage.begun(root, {**clicks_spec(), "source": source}, data=data)


def switch_to(spark: SparkSession, stage: Stage, source: dict[str, Any], start: str) -> SwitchPlan:
    plan, before = switch_plan(spark, stage, source, start), stage.lineage
    assert stage.lineage == carry_out(switch_of(spark, stage, start)).lineage_to != before
    return plan


def switch_of(spark: SparkSession, stage: Stage, start: str, *, leave_unread: bool = False) -> SwitchRunner:
    command = Switch(start_at=start, leave_unread=leave_unread)
    spec = stage.spec()
    return SwitchRunner(spark=spark, home=stage.stream_home, command=command, spec=spec, start=Start.of(start))


@pytest.mark.long
def test_from_one_broker_to_another(
    spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, other_broker: KafkaBroker
) -> None:
    """Three partitions on each: at the cut one is idle, and one has much more to bring than the others."""
    rows = known_rows(ROWS)
    first, second = rows[:CUT], rows[CUT - OVERLAP :]
    for broker, topic in ((kafka_broker, "switch-old"), (other_broker, "switch-new"), (kafka_broker, "switch-all")):
        broker.create_topic(topic, partitions=3)
    moved = stream_of(topic_source(kafka_broker.bootstrap_servers, "switch-old"), tmp_path / "moved")
    steady = stream_of(topic_source(kafka_broker.bootstrap_servers, "switch-all"), tmp_path / "steady")

    def to(number: int) -> int:
        return 1 if number % 5 == 0 else 0

    for topic in ("switch-old", "switch-all"):
        produce(kafka_broker, topic, first, to)
    for stage in (moved, steady):
        catch_up(spark, stage)
    produce(other_broker, "switch-new", second, to)
    produce(kafka_broker, "switch-all", second, to)
    plan = switch_to(spark, moved, topic_source(other_broker.bootstrap_servers, "switch-new"), "earliest")
    assert plan.unread.items == 0
    assert plan.gap_ms is not None
    assert plan.gap_ms < 0
    assert "before the last event" in "\n".join(plan.lines())
    for stage in (moved, steady):
        catch_up(spark, stage)
        drain(spark, stage)
    expected = landed(steady)
    assert expected.sessions
    assert expected.late
    assert landed(moved) == expected


@pytest.mark.long
def test_from_files_to_a_topic_and_back(
    spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    rows = known_rows(ROWS)
    parts = rows[:200], rows[200:400], rows[400:]
    files = clicks_spec()["source"]
    moved, steady = stream_of(files, tmp_path / "moved"), stream_of(files, tmp_path / "steady")
    for number, part in enumerate(parts):
        write_file(steady, f"{number}.json", part)
        catch_up(spark, steady)
    write_file(moved, "0.json", parts[0])
    catch_up(spark, moved)
    produce(kafka_broker, kafka_topic, parts[0], lambda _: 0)
    end = switch_plan(spark, moved, topic_source(kafka_broker.bootstrap_servers, kafka_topic), "latest")
    assert f"{kafka_topic} {{'0': {len(parts[0])}, '1': 0}}" in end.begins
    switch_to(spark, moved, topic_source(kafka_broker.bootstrap_servers, kafka_topic), "latest")
    produce(kafka_broker, kafka_topic, parts[1], lambda _: 0)
    catch_up(spark, moved)
    back = switch_to(spark, moved, files, "latest")
    assert back.begins.startswith("0 of 1 files")
    write_file(moved, "2.json", parts[2])
    for stage in (moved, steady):
        catch_up(spark, stage)
        drain(spark, stage)
    assert landed(steady).sessions
    assert landed(moved) == landed(steady)


def test_topics_that_stay_keep_their_positions(
    spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    """The list a, b becomes a, b, c. Then b leaves, and its unread records refuse the switch.

    Topics that stay may have more partitions than the stream has read, and less records.
    """
    a, b, c = (f"{kafka_topic}-{name}" for name in "abc")
    for topic in (a, b, c):
        kafka_broker.create_topic(topic)
        send(kafka_broker, topic, [click(topic[-1], f"{topic[-1]}{number}", number) for number in range(2)])
    stage = Stage.begun(tmp_path, topic_spec(kafka_broker, f"{a},{b}"))
    catch_up(spark, stage)
    for topic in (a, b, c):
        send(kafka_broker, topic, [click(topic[-1], f"{topic[-1]}2", 2)])

    def read_from(topics: str, start: str) -> SwitchRunner:
        stage.write_spec(topic_spec(kafka_broker, topics))
        return switch_of(spark, stage, start)

    adding = read_from(f"{a},{b},{c}", "earliest")
    plan = adding.look()
    assert (plan.decision.kept, plan.decision.unread.items) == ((a, b), 0)
    carry_out(adding)
    assert read_planned_batch(stage.checkpoint, 0).ends[EVENTS] == {a: {"0": 2}, b: {"0": 2}, c: {"0": 0}}
    assert set(read_source_ids(stage.stream_home, stage.lineage or "")) == (set() if plain() else {a, b, c})
    kafka_broker.add_partitions(c, 2)
    leaving = read_from(f"{a},{c}", "earliest")
    plan = leaving.look()
    assert (plan.decision.kept, plan.decision.unread.items) == ((a, c), 1)
    with pytest.raises(EventsUnread):
        carry_out(leaving)
    stage.write_spec(topic_spec(kafka_broker, f"{a},{b},{c}"))
    drain(spark, stage)
    assert {row["key"]: row["event_count"] for row in table_rows(stage.table("sessions"))} == {"a": 3, "b": 3, "c": 3}
    send(kafka_broker, a, [click("a", f"a{number}", number) for number in (60, 70)])
    kafka_broker.delete_records(a, before=4)
    assert read_from(f"{a},{c}", "earliest").look().decision.first_event == 1_700_000_070_000


def switch_plan(spark: SparkSession, stage: Stage, source: dict[str, Any], start: str) -> SwitchPlan:
    stage.write_spec({**clicks_spec(), "source": source})
    return switch_of(spark, stage, start).look().decision


@pytest.mark.long
@AND_ON_HDFS_IN_THE_LONG_RUN
def test_from_files_to_a_table_at_a_moment(spark: SparkSession, tmp_path: Path, data: str | None) -> None:
    # which of them are events, files and a table agree about
    rows = [row for row in known_rows(ROWS) if row.kind not in QUARANTINE_REASONS]
    table = tmp_path / "clicks_table"

    def append(part: Sequence[Row]) -> None:
        lines = tmp_path / "lines.json"
        lines.write_bytes(b"\n".join(row.value for row in part))
        spark.read.schema(CLICK_COLUMNS).json(str(lines)).write.format("delta").mode("append").save(str(table))

    files = clicks_spec()["source"]
    moved = stream_of(files, tmp_path / "moved", data)
    append(rows[:CUT])
    write_file(moved, "0.json", rows[:CUT])
    catch_up(spark, moved)
    append(rows[CUT:])
    history = spark.sql(f"describe history delta.`{table}`").where("version = 1").collect()
    moment = history[0].timestamp.astimezone().isoformat()
    plan = switch_to(spark, moved, {"format": "delta", "path": str(table)}, moment)
    assert plan.begins.startswith("version 1 ")
    catch_up(spark, moved)
    drain(spark, moved)
    now = epoch_ms()
    brought = [Batch(tuple(event_of(row.event) for row in part), now) for part in (rows[:CUT], rows[CUT:])]
    assert_landed(moved, [*brought, drain_at(now)], rows)


def test_what_would_lose_events_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    files = clicks_spec()["source"]
    stage = stream_of(files, tmp_path)
    write_file(stage, "0.json", known_rows(50))
    catch_up(spark, stage)
    before = stage.lineage
    write_file(stage, "1.json", known_rows(20))
    (tmp_path / "elsewhere").mkdir()
    other = {**files, "path": str(tmp_path / "elsewhere")}
    plan = switch_plan(spark, stage, other, "earliest")
    assert plan.unread.items == 1
    switching = switch_of(spark, stage, "earliest")
    with pytest.raises(EventsUnread) as refused:
        carry_out(switching)
    assert (refused.value.items, refused.value.unit) == (1, "files")
    with pytest.raises(PlanChanged):
        execute(approved(switching), switch_of(spark, stage, "latest"))
    stage.write_spec({**clicks_spec(gap_timeout="60 seconds"), "source": other})
    with pytest.raises(InvalidSpec, match=r"rules\.gap_timeout"):
        switch_of(spark, stage, "earliest").look()
    stage.write_spec(clicks_spec())
    with pytest.raises(InvalidSpec, match="the stream's file"):
        switch_of(spark, stage, "earliest").look()
    assert stage.lineage == before
    stage.write_spec({**clicks_spec(), "source": other})
    assert carry_out(switch_of(spark, stage, "earliest", leave_unread=True)).lineage_to == stage.lineage != before


@pytest.mark.long
def test_a_source_that_is_gone_can_be_left(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "clicks_table"
    lines = tmp_path / "lines.json"
    lines.write_bytes(b"\n".join(row.value for row in known_rows(50)))
    spark.read.schema(CLICK_COLUMNS).json(str(lines)).write.format("delta").save(str(table))
    stage = stream_of({"format": "delta", "path": str(table)}, tmp_path)
    catch_up(spark, stage)
    shutil.rmtree(table)
    stage.feed.mkdir(parents=True, exist_ok=True)
    plan = switch_to(spark, stage, clicks_spec()["source"], "earliest")
    assert plan.unread.items is None
    assert " is unknown: " in "\n".join(plan.lines())


def accept_loss(spark: SparkSession, stage: Stage) -> LossPlan:
    accepting, before = loss_of(spark, stage), stage.lineage
    plan = accepting.look()
    with pytest.raises(PlanChanged):
        execute(approved(accepting, digest="0" * 16), accepting)
    assert stage.lineage == before
    assert carry_out(accepting).lineage_to == stage.lineage != before
    return plan.decision


def loss_of(spark: SparkSession, stage: Stage) -> LossRunner:
    return LossRunner(spark=spark, home=stage.stream_home, command=Switch(accept_loss=True), spec=stage.spec())


def died_of(spark: SparkSession, stage: Stage) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        catch_up(spark, stage)
    error = classify_failure(stage.name, caught.value)
    assert isinstance(error, QueryFailed)
    return error.cause


def ids_of_events(stage: Stage) -> list[str]:
    rows: list[dict[str, Any]] = table_rows(stage.table("sessions"))
    return sorted(event["event_id"] for row in rows for event in row["events"])


@pytest.mark.long
@pytest.mark.usefixtures("tuned")
def test_records_that_retention_removed(
    spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    stage = Stage.begun(tmp_path, topic_spec(kafka_broker, kafka_topic))
    clicks = [click("ann", f"c{number}", number) for number in range(7)]
    send(kafka_broker, kafka_topic, clicks[:3])
    catch_up(spark, stage)
    saved = save(spark, stage, "middle", native=True)
    assert not plan_restore(stage.stream_home, *saved, SparkFacts(spark), Restore()).replay.missing
    with pytest.raises(InvalidSpec) as caught:
        loss_of(spark, stage).look()
    assert (caught.value.field, caught.value.value) == ("--accept-loss", "given")
    send(kafka_broker, kafka_topic, clicks[3:])
    kafka_broker.delete_records(kafka_topic, before=5)
    source = stage.spec().source
    assert isinstance(source, KafkaSource)
    assert oldest_offsets(spark, source, [f"{kafka_topic}-0"]) == {f"{kafka_topic}-0": 5}
    assert died_of(spark, stage) == "source_data_loss"
    assert plan_restore(stage.stream_home, *saved, SparkFacts(spark), Restore()).replay.missing == (
        str(Records(kafka_topic, 0, 3, 5)),
    )
    plan = accept_loss(spark, stage)
    assert plan.lost == (str(Records(kafka_topic, 0, 3, 5)),)
    with pytest.raises(EventsGone):  # its rows would be deleted, and the records are not there to read again
        RollbackRunner(spark=spark, home=stage.stream_home, command=Rollback()).look().require_possible()
    drain(spark, stage)
    assert ids_of_events(stage) == ["c0", "c1", "c2", "c5", "c6"]


@pytest.mark.usefixtures("tuned")
@pytest.mark.long
def test_a_topic_made_anew(spark: SparkSession, tmp_path: Path, kafka_broker: KafkaBroker, kafka_topic: str) -> None:
    """The new topic is longer than the old one."""
    stage = Stage.begun(tmp_path, topic_spec(kafka_broker, kafka_topic))
    send(kafka_broker, kafka_topic, [click("ann", f"old{number}", number) for number in range(2)])
    catch_up(spark, stage)
    saved = save(spark, stage, "middle", native=True)
    kafka_broker.delete_topic(kafka_topic)
    kafka_broker.create_topic(kafka_topic)
    send(kafka_broker, kafka_topic, [click("ann", f"new{number}", 5 + number) for number in range(4)])
    with pytest.raises(SourceReplaced):
        catch_up(spark, stage)
    assert plan_restore(stage.stream_home, *saved, SparkFacts(spark), Restore()).replay.missing
    left = stage.lineage
    plan = accept_loss(spark, stage)
    assert plan.lost
    known, now = (read_source_ids(stage.stream_home, str(lineage)) for lineage in (left, stage.lineage))
    assert known.keys() == now.keys() == {kafka_topic}
    assert known != now
    assert saved[1].source_ids == known
    drain(spark, stage)
    assert ids_of_events(stage) == ["new0", "new1", "new2", "new3", "old0", "old1"]


@pytest.mark.long
def test_versions_that_a_table_has_lost(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path, DELTA_CLICKS)
    a_commit(stage)
    catch_up(spark, stage)
    log_truncated(stage)
    assert died_of(spark, stage) == "source_data_loss"
    plan = accept_loss(spark, stage)
    assert [lost.split(":")[0] for lost in plan.lost] == [f"version {version}" for version in range(1, 6)]
    a_commit(stage, 7)
    drain(spark, stage)
    assert len(ids_of_events(stage)) == 2


@pytest.mark.long
def test_files_that_are_gone_before_their_batch_was_over(spark: SparkSession, tmp_path: Path) -> None:
    stage = Stage.begun(tmp_path, clicks_spec(files_per_batch=3))
    stage.feed.mkdir(parents=True, exist_ok=True)
    (stage.feed / "0.json").write_bytes(line(0, "ann"))
    catch_up(spark, stage)
    for number in range(1, 4):
        (stage.feed / f"{number}.json").write_bytes(line(number, "ann"))
    begin_batch(spark, stage)
    (stage.feed / "2.json").unlink()
    plan = accept_loss(spark, stage)
    assert [lost.rpartition("/")[2] for lost in plan.lost] == ["2.json"]
    drain(spark, stage)
    assert [row["event_count"] for row in table_rows(stage.table("sessions"))] == [3]
