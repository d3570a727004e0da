"""A history taken at once and a stream that goes on from it are one stream over everything, by the definition."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import Outcome
from sessionizer.core.definition.rules import NEVER_MS, Caps, Clock, SessionRules
from sessionizer.errors import InvalidSpec, LeaseLost, StreamBegun
from sessionizer.spark.history.history_rows import find_history, read_history_rows
from sessionizer.spark.history.seed_runner import HistoryResults
from sessionizer.spark.ingest.guard import Guarded
from sessionizer.state.commands.seeds import BEGINNING, NOW, SOURCE, SeedPlan
from sessionizer.stream_spec.decisions import spec_fingerprint
from support.checkpoints.foreign_queries import QUERIES_OF_STATE, Make, keep_lines, made
from support.expected.file_accesses import folder_digest, settled_digest
from support.expected.landed import landed, plain, table_rows
from support.processes.in_process import catch_up, drain
from support.processes.kafka_broker import KafkaBroker
from support.processes.postgres import PostgresServer
from support.stores.control_fixtures import AND_ON_HDFS_IN_THE_LONG_RUN
from support.streams.click_files import write_click_files
from support.streams.plain_rows import session_of_oracle
from support.streams.stage import Stage, clicks_spec, topic_source
from support.streams.strategies import ORIGIN_MS, examples_of, histories
from support.streams.streamed_log import COLUMNS, MAPPING, source_row, written_rules
from support.verbs.reseeded_stream import reader_of, seed

HISTORIES = 120
MOMENT_MS = ORIGIN_MS + 40
PARTS = 2
RULES = SessionRules(
    clock=Clock.EVENT_TIME,
    watermark_delay_ms=400,
    gap_timeout_ms=50,
    client_timeouts_ms={"app": 20, "tv": 90},
    caps=Caps(max_events=4, max_duration_ms=100, max_bytes=140),
)
NOBODYS = {"at_ms": ORIGIN_MS, "event_id": "x", "closes": False}
"""A row without a key."""


@dataclass(frozen=True, slots=True)
class Everything:
    """Many random streams in one: what ``came`` before the live source begins, and what that brings in each part."""

    came: tuple[Event, ...]
    live: tuple[tuple[Event, ...], ...]

    @property
    def up_to_the_moment(self) -> tuple[Event, ...]:
        return tuple(event for event in self.came if (event.event_time_ms or 0) <= MOMENT_MS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    parts: list[list[Event]] = [[] for _ in range(PARTS + 1)]
    for number, history in enumerate(examples_of(histories(), HISTORIES)):
        size = -(-len(history) // len(parts)) or 1
        for place, event in enumerate(history):
            parts[place // size].append(replace(event, key=f"{number}/{event.key}"))
    return Everything(tuple(parts[0]), tuple(map(tuple, parts[1:])))


def stage_of(root: Path, source: dict[str, Any] | None = None, data: str | None = None) -> Stage:
    files = {"format": "files", "path": "feed", "encoding": "json", "columns": COLUMNS}
    options = {"options": {"maxFilesPerTrigger": 1}}
    spec = {"source": source or {**files, **options}, "mapping": MAPPING, "rules": written_rules(RULES, 5)}
    return Stage.set_up(root, {**spec, "key_groups": 3, "measures": {"amounts": "sum(amount)"}}, data=data)


def lines(events: Iterable[Event]) -> str:
    return "\n".join(json.dumps(source_row(event)) for event in events)


def bring(stage: Stage, number: int, parts: Iterable[Sequence[Event]]) -> None:
    """A file for each part, from that number on, of which each is a batch; by the age of the files."""
    for place, events in enumerate(parts, number):
        hidden = stage.feed / f".{place}.json"
        hidden.write_text(lines(events))
        os.utime(hidden, (ORIGIN_MS // 1000 + place,) * 2)
        hidden.rename(stage.feed / f"{place}.json")


def archive(spark: SparkSession, root: Path, form: str, events: Sequence[Event]) -> str:
    (root / "rows.json").write_text(f"{lines(events)}\n{json.dumps(NOBODYS)}")
    rows = spark.read.schema(COLUMNS).json(str(root / "rows.json"))
    rows.repartition(3).write.format(form).mode("append").save(str(root / "archive"))
    return str(root / "archive")


def expected(history: Iterable[Event], live: Iterable[Sequence[Event]], moment_ms: int) -> Outcome:
    """One stream over everything: the history as its first batch, the moment, and then each part of the live source."""
    taken = Batch(tuple(history), 1, rules=replace(RULES, watermark_delay_ms=NEVER_MS))
    moment = Batch((), 2, floor_ms=moment_ms, rules=RULES)
    parts = [Batch(tuple(events), ORIGIN_MS * 2 + place) for place, events in enumerate(live)]
    return sessionize([taken, moment, *parts, Batch((), ORIGIN_MS * 3, floor_ms=NEVER_MS)], RULES)


def assert_landed(stage: Stage, outcome: Outcome) -> None:
    names = ("session_id", "key", "client", "started_at", "ended_at", "event_count", "close_reason", "events")
    found = Counter(plain([row[name] for name in names]) for row in table_rows(stage.table("sessions")))
    assert found == Counter(map(session_of_oracle, outcome.closed))
    late = Counter(
        plain([row["key"], row["event_id"], row["event_time"]]) for row in table_rows(stage.table("late_events"))
    )
    assert late == Counter((event.key, event.event_id, event.event_time_ms) for event in outcome.late)
    refused = Counter(
        json.loads(row["raw"])["event_id"]
        for row in table_rows(stage.table("quarantine"))
        if row["reason"] == "conflicting_duplicate"
    )
    assert refused == Counter(event.event_id for event in outcome.conflicting)


def assert_worth_it(outcome: Outcome) -> None:
    """T is in the middle of sessions, and what is hard is among it."""
    across = [session for session in outcome.closed if session.started_at_ms <= MOMENT_MS < session.ended_at_ms]
    assert min(len(across), len(outcome.conflicting), len(outcome.late)) > 20
    assert len({session.close_reason for session in outcome.closed}) >= 4


@pytest.mark.long
@AND_ON_HDFS_IN_THE_LONG_RUN
def test_an_archive_in_parquet_and_what_its_folder_gets_from_now_on(
    spark: SparkSession, tmp_path: Path, everything: Everything, data: str | None
) -> None:
    stage = stage_of(tmp_path, data=data)
    bring(stage, 0, [everything.came])  # what is archived is still there, and must not be read again
    reader = reader_of(spark, stage, archive(spark, tmp_path, "parquet", everything.came), NOW, MOMENT_MS)
    planned = reader.figures(tmp_path / "scratch")
    record = seed(stage, reader)
    assert (record.outcome, record.lineage_to) == (Ending.DONE, stage.lineage)
    bring(stage, 1, everything.live)
    drain(spark, stage)
    outcome = expected(everything.came, everything.live, MOMENT_MS)
    assert_worth_it(outcome)
    assert_landed(stage, outcome)
    closed = expected(everything.came, [], MOMENT_MS)
    first = [row for row in table_rows(stage.table("sessions")) if row["batch_id"] == 0]
    assert len(first) == planned.sessions > 0
    assert planned.events == len(everything.came)
    assert planned.refused == {"null_key": 1}
    assert (planned.later, planned.repeated) == (0, closed.duplicates_dropped)
    assert Counter(row["reason"] for row in table_rows(stage.table("quarantine")))["null_key"] == 1


@pytest.mark.long
def test_an_archive_in_delta_and_a_source_that_brings_everything_again(
    spark: SparkSession, tmp_path: Path, everything: Everything
) -> None:
    stage = stage_of(tmp_path)
    reader = reader_of(spark, stage, archive(spark, tmp_path, "delta", everything.came), BEGINNING, MOMENT_MS)
    archive(spark, tmp_path, "delta", everything.live[0])  # later than the version that was planned
    planned = reader.figures(tmp_path / "scratch")
    assert planned.later == len(everything.came) - len(everything.up_to_the_moment) > 0
    seed(stage, reader)
    live = [everything.came, *everything.live]
    bring(stage, 0, live)
    drain(spark, stage)
    outcome = expected(everything.up_to_the_moment, live, MOMENT_MS)
    assert_worth_it(outcome)
    assert_landed(stage, outcome)


@pytest.fixture
def postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        monkeypatch.setenv("JDBC_PASSWORD", server.password)
        yield server


@pytest.mark.long
def test_events_that_were_kept_in_postgresql(
    spark: SparkSession, tmp_path: Path, everything: Everything, postgres: PostgresServer
) -> None:
    stage = stage_of(tmp_path)
    (tmp_path / "rows.json").write_text(lines(everything.came))
    rows = spark.read.schema(COLUMNS).json(str(tmp_path / "rows.json"))
    who = {"user": postgres.user, "password": postgres.password}
    rows.write.jdbc(postgres.url, "visits", properties=who)
    seed(stage, reader_of(spark, stage, postgres.url, NOW, MOMENT_MS, table=("visits", postgres.user)))
    bring(stage, 0, everything.live)
    drain(spark, stage)
    assert_landed(stage, expected(everything.came, everything.live, MOMENT_MS))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["transform_with_state", "apply_with_state"])
def test_events_that_another_query_keeps_in_its_state(
    spark: SparkSession, tmp_path: Path, everything: Everything, kind: str
) -> None:
    stage, checkpoint = stage_of(tmp_path), tmp_path / "theirs"
    (tmp_path / "came").mkdir()
    (tmp_path / "came" / "1.json").write_text(lines(everything.came))
    with made(spark, Make()):
        keep_lines(spark, kind, tmp_path / "came", checkpoint)
    before = settled_digest(checkpoint)
    state, query = f"checkpoint:{checkpoint}", QUERIES_OF_STATE[kind].replace("COLUMNS", COLUMNS)
    for wrong in ("select nothing from history", "drop view history"):
        with pytest.raises(InvalidSpec) as refused:
            reader_of(spark, stage, state, NOW, MOMENT_MS, query=wrong).figures(tmp_path / "scratch")
        assert (refused.value.field, refused.value.value) == ("--query", wrong)
    seed(stage, reader_of(spark, stage, state, NOW, MOMENT_MS, query=query))
    assert folder_digest(checkpoint) == before
    bring(stage, 0, everything.live)
    drain(spark, stage)
    assert_landed(stage, expected(everything.came, everything.live, MOMENT_MS))


@pytest.fixture
def kafka(kafka_broker: KafkaBroker, kafka_topic: str) -> tuple[dict[str, Any], Callable[[Sequence[Event]], None]]:
    address = kafka_broker.bootstrap_servers

    def produce(events: Sequence[Event]) -> None:
        producer = Producer({"bootstrap.servers": address, "log_level": 2})
        for event in events:
            producer.produce(kafka_topic, json.dumps(source_row(event)), key=event.key)
        assert producer.flush(60) == 0

    return {**topic_source(address, kafka_topic), "columns": COLUMNS}, produce


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> tuple[dict[str, Any], Callable[[Sequence[Event]], None]]:
    table, rows = tmp_path / "table", tmp_path / "rows"
    rows.mkdir()

    def append(events: Sequence[Event]) -> None:
        file = rows / f"{len(list(rows.iterdir()))}.json"
        file.write_text(lines(events))
        spark.read.schema(COLUMNS).json(str(file)).write.format("delta").mode("append").save(str(table))

    append([])
    return {"format": "delta", "path": str(table)}, append


@pytest.mark.parametrize("kind", ["delta", pytest.param("kafka", marks=pytest.mark.long)])
def test_what_the_source_has_is_taken_at_once_and_what_it_gets_is_streamed(
    spark: SparkSession, tmp_path: Path, everything: Everything, kind: str, request: pytest.FixtureRequest
) -> None:
    source, produce = request.getfixturevalue(kind)
    stage = stage_of(tmp_path, source)
    produce(everything.came[: len(everything.came) // 2])
    produce(everything.came[len(everything.came) // 2 :])
    reader = reader_of(spark, stage, SOURCE, SOURCE, None)
    seed(stage, reader)
    for events in everything.live:
        produce(events)
        catch_up(spark, stage)
    drain(spark, stage)
    newest = max(event.event_time_ms or 0 for event in everything.came)
    assert_landed(stage, expected(everything.came, everything.live, newest - RULES.watermark_delay_ms))


def test_what_a_run_takes_that_was_overtaken_is_not_gone_on_with(
    spark: SparkSession, tmp_path: Path, everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was frozen before it read, and the history is another one when it goes on."""
    stage, folder = stage_of(tmp_path), tmp_path / "seeds"
    history = archive(spark, tmp_path, "parquet", everything.came)
    found: list[tuple[HistoryResults, Counter[Any]]] = []

    def taken() -> HistoryResults:
        return reader_of(spark, stage, history, NOW, MOMENT_MS).kept(folder, lambda: None)

    def lost() -> None:
        raise LeaseLost("clicks", 1, 2)

    def after_another_run(*arguments: Any) -> Guarded:
        with monkeypatch.context() as undone:
            undone.setattr("sessionizer.spark.history.seed_runner.read_history_rows", read_history_rows)
            found.append((taken(), Counter(taken().frame(spark).collect())))
        archive(spark, tmp_path, "parquet", everything.live[0])
        return read_history_rows(*arguments)

    slow = reader_of(spark, stage, history, NOW, MOMENT_MS)
    with monkeypatch.context() as patched:
        patched.setattr("sessionizer.spark.history.seed_runner.read_history_rows", after_another_run)
        with pytest.raises(LeaseLost):
            slow.kept(folder, lost)
    ((kept, rows),) = found
    assert len(list(folder.iterdir())) == 3, "both have read it"
    assert taken() == kept
    assert Counter(kept.frame(spark).collect()) == rows != Counter()


@pytest.mark.long
def test_a_stream_starts_over_without_what_it_wrote(
    spark: SparkSession, tmp_path: Path, everything: Everything
) -> None:
    stage = stage_of(tmp_path)
    bring(stage, 0, [everything.live[0]])
    catch_up(spark, stage)
    before = stage.lineage
    assert table_rows(stage.table("sessions"))
    reader = reader_of(spark, stage, archive(spark, tmp_path, "delta", everything.came), NOW, MOMENT_MS)
    assert reader.decision.leaves == before
    seed(stage, reader)
    assert stage.lineage != before
    bring(stage, 1, [everything.live[1]])
    drain(spark, stage)
    assert_landed(stage, expected(everything.came, everything.live[1:], MOMENT_MS))


def test_a_stream_that_began_meanwhile_is_not_seeded_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec(files_per_batch=4))
    write_click_files(stage.feed, files=2)
    written: dict[str, object] = {}

    def started(*_: object, **__: object) -> SparkSession:
        """Spark takes minutes to start, and a driver reads all there is in that time."""
        catch_up(spark, stage)
        written["home"] = folder_digest(stage.stream_home.root)
        written["rows"] = landed(stage)
        return spark

    monkeypatch.setattr("sessionizer.cli.terminal.start_spark", started)
    where = ("--streams", str(stage.streams), "--home", str(stage.home))
    command = ["seed", "clicks", "--history", str(stage.feed), "--backfill", "--approve", digest_of(stage), *where]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, StreamBegun)
    assert error.lineage == stage.lineage
    assert read_operations(stage.stream_home) == []
    assert folder_digest(stage.stream_home.root) == written["home"]
    assert landed(stage) == written["rows"]


def digest_of(stage: Stage) -> str:
    spec = stage.spec()
    past, _ = find_history(str(stage.feed), spec.source, None, None, None)
    return SeedPlan(stage.name, spec_fingerprint(spec), past, None, BEGINNING, backfill=True, leaves=None).digest
