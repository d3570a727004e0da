"""Times of each way to begin with a history, over the same events, beside a stream that reads them itself.

One process and one Spark session run all of them. The first seed warms the JVM and does not count. The servers are
those of the tests.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sessionizer.spark.session import spark_session
from sessionizer.state.commands.seeds import NOW, SOURCE
from sessionizer_bench.contestants import per_user
from sessionizer_bench.contestants.ours import spec_values
from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data.dataset import COLUMNS, Dataset
from sessionizer_bench.data.generator import only_first, stored
from sessionizer_bench.driver import SETTINGS
from sessionizer_bench.places import DATASETS, RUNS
from sessionizer_bench.workloads import BUSY
from support.processes.in_process import catch_up
from support.processes.kafka_broker import KafkaBroker
from support.processes.postgres import PostgresServer
from support.streams.stage import Stage
from support.verbs.reseeded_stream import reader_of, seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "seeds"
EVENTS: Final = Dataset(NAME, batch_events=200_000, batches=5, traffic=BUSY)
"""A million events of 100,000 users."""
ITSELF: Final = "read by the stream itself"
_TOPIC: Final = "history"
_PARTITIONS: Final = 2
_STATE_BATCHES: Final = 1
"""Batches of events for the other query, which has a key for each user and takes a minute for this many."""
_OF_STATE: Final = (
    "select key.user_id, timestamp_millis(list_element.at_ms) event_time, list_element.event_id, list_element.data, "
    "list_element.is_last, list_element.timeout_s from history"
)


def quick() -> Dataset:
    """Return a hundredth of the data set, which only shows that the benchmark works."""
    return replace(EVENTS, name=f"quick-{NAME}", batch_events=2_000, traffic=replace(BUSY, users=1_000))


@dataclass(frozen=True, slots=True)
class Way:
    """The arguments of the command ``seed``. ``source`` is the stream's source, None for the benchmark's files."""

    history: str
    table: tuple[str | None, str | None] = (None, None)
    query: str | None = None
    source: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Archives:
    """The same events in every form that a history can have, in ``folder``."""

    spark: SparkSession
    dataset: Dataset
    folder: Path

    @property
    def files(self) -> Path:
        """Folder of the generated files."""
        return stored(self.dataset, DATASETS).files

    @property
    def rows(self) -> DataFrame:
        """All events as rows."""
        return self.spark.read.schema(COLUMNS).parquet(str(self.files))

    def ways(self, postgres: PostgresServer, broker: KafkaBroker) -> Iterator[tuple[str, Way]]:
        """Yield each way with its name. Each archive is filled when its turn comes."""
        yield "Parquet files", Way(str(self.files))
        self.rows.write.format("delta").save(str(self.folder / "delta"))
        yield "a Delta table", Way(str(self.folder / "delta"))
        who = {"user": postgres.user, "password": postgres.password}
        self.rows.write.jdbc(postgres.url, "visits", properties=who)
        yield "a table in PostgreSQL", Way(postgres.url, table=("visits", postgres.user))
        broker.create_topic(_TOPIC, _PARTITIONS)
        address = broker.bootstrap_servers
        topic = self.rows.selectExpr("user_id as key", "to_json(struct(*)) as value").write.format("kafka")
        topic.option("kafka.bootstrap.servers", address).option("topic", _TOPIC).save()
        kafka = {"format": "kafka", "bootstrap_servers": address, "topic": _TOPIC, "encoding": "json"}
        yield "its own topic of Kafka", Way(SOURCE, source={**kafka, "columns": COLUMNS})
        yield "the state of another query", Way(f"checkpoint:{self._theirs()}", ("0/events", None), _OF_STATE)

    def _theirs(self) -> Path:
        some = only_first(stored(self.dataset, DATASETS), _STATE_BATCHES, self.dataset.files_per_batch)
        (self.folder / "theirs").mkdir()
        race = Race(some.files, self.dataset.files_per_batch, self.folder / "theirs", emit_every_s=None, key_groups=16)
        per_user.start(self.spark, race).awaitTermination()
        return race.checkpoint


def measured(dataset: Dataset, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Return, for each way, the seconds of the plan and of each step of the seed, and the counts of its outcome."""
    folder = RUNS / dataset.name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kafka").mkdir(parents=True)
    spark = spark_session("benchmark seeds", "local[2]", SETTINGS)
    archives, found = Archives(spark, dataset, folder), {}
    _seeded(archives, folder / "warm-up", Way(str(archives.files)))
    found[ITSELF] = _read_by_itself(archives, folder / "itself")
    with _postgres() as postgres, KafkaBroker(folder / "kafka") as broker:
        for number, (name, way) in enumerate(archives.ways(postgres, broker)):
            found[name] = _seeded(archives, folder / str(number), way)
            say(f"{name}: {found[name]}")
    spark.stop()
    return found


def lines(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table with a row for each way."""
    yield "| history | events | open at T | plan, s | seed, s | of which |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for name, of in found.items():
        yield (
            f"| {name} | {of['events']:,} | {of.get('open_events', 0):,} | {of.get('plan_s', '–')} | {of['seed_s']} | "
            f"{of.get('steps', '')} |"
        )


@contextmanager
def _postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        os.environ["JDBC_PASSWORD"] = server.password
        try:
            yield server
        finally:
            del os.environ["JDBC_PASSWORD"]


def _stage(archives: Archives, root: Path, source: dict[str, Any] | None) -> Stage:
    feed = root / "feed"
    feed.mkdir(parents=True)
    race = Race(feed, archives.dataset.files_per_batch, root, emit_every_s=30, key_groups=16)
    values = spec_values(race, NAME)
    return Stage.set_up(root, {**values, "source": source or values["source"]}, name=NAME)


def _seeded(archives: Archives, root: Path, way: Way) -> dict[str, Any]:
    stage = _stage(archives, root, way.source)
    live_from = SOURCE if way.history == SOURCE else NOW
    spark = archives.spark
    reader = reader_of(spark, stage, way.history, live_from, None, table=way.table, query=way.query)
    started = time.perf_counter()
    (root / "scratch").mkdir()
    figures = reader.figures(root / "scratch")
    planned = time.perf_counter()
    record = seed(stage, reader)
    return {
        "events": figures.events,
        "open_events": figures.open_events,
        "plan_s": round(planned - started, 1),
        "seed_s": round(time.perf_counter() - planned, 1),
        "steps": record.seconds,
    }


def _read_by_itself(archives: Archives, root: Path) -> dict[str, Any]:
    """Run the stream's query over the same files, in batches as in ``large``, and return its figures."""
    stage = _stage(archives, root, None)
    for file in archives.files.iterdir():
        (root / "feed" / file.name).hardlink_to(file)
    started = time.perf_counter()
    catch_up(archives.spark, stage)
    return {"events": archives.rows.count(), "seed_s": round(time.perf_counter() - started, 1)}
