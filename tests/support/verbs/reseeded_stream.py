"""A log through drivers that each go on in a lineage of their own: seeded with the state of the one before.

Each has another number of key groups and of partitions, and may have another spec.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import OperationRecord, pending_operation
from sessionizer.core.definition.event import Batch
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import uri_of
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.spark.history.history_rows import find_history
from sessionizer.spark.history.seed_runner import HistoryReader, SeedRunner
from sessionizer.spark.sinks.examine import examine
from sessionizer.spark.state.lineages.new_lineage import NewLineage, transfer_state
from sessionizer.state.commands.seeds import Seed, SeedPlan
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.lineages.origin import Origin
from sessionizer.stream_spec.decisions import document_of, spec_fingerprint
from support.expected.checkpoint_log import CheckpointLog
from support.processes.in_process import catch_up
from support.streams.changing_stream import (
    TABLES,
    Edition,
    Told,
    allow_wider_types,
    editions_of,
    given,
    records_of,
    spec_of,
)
from support.streams.stage import Stage
from support.streams.strategies import Log
from support.streams.streamed_log import Feed, batches_that_bring_something
from support.verbs.begun_restore import run_here

SEED_BATCH = 0


def reseed(spark: SparkSession, stage: Stage, partitions: int = 2, canary: CanaryTerms | None = None) -> str:
    """Have the stopped stream go on in a new lineage, by what its file says now. Returns the lineage."""
    home, spec = stage.stream_home, stage.spec()
    committed = read_committed_batch(home)
    origin = Origin("rescale", epoch_ms(), committed.lineage, committed.batch_id)
    examined = examine(spark, spec, stage.home)
    given, transfer = transfer_state(spark, home, committed, LineageSpec(document_of(spec)), origin)
    new = NewLineage(spark, home, spec, examined, partitions, transfer, lambda: None, lambda _: None)
    try:
        new.start(given)
        new.compare()
        new.set_position()
        if canary is not None:
            new.begin_canary(canary)
    except Exception:
        new.remove()
        raise
    return new.activate()


def tell_reseeded(
    spark: SparkSession,
    log: Log,
    seed: int,
    drivers: int,
    root: Path,
    *,
    go_on: Callable[[SparkSession, Stage, int], str] = reseed,
) -> Told:
    """Stream ``log``, whose last batch drains, by at most so many drivers under ``root``, an empty folder.

    ``go_on``: gives a stopped stream a lineage of so many partitions by its file, and returns it.
    """
    telling = _Telling.set_up(spark, log, random.Random(seed), root)
    telling.go_on = go_on
    shares = telling.shares(drivers)
    editions = editions_of(log.rules, len(shares), telling.chance)
    for number, (edition, share) in enumerate(zip(editions, shares, strict=True)):
        telling.live(edition, share, first=number == 0)
    return telling.told(editions)


@dataclass(slots=True)
class _Telling:
    spark: SparkSession
    chance: random.Random
    stage: Stage
    feed: Feed
    brought: list[Batch]
    lived: list[tuple[str, Edition]]
    go_on: Callable[[SparkSession, Stage, int], str] = reseed

    @classmethod
    def set_up(cls, spark: SparkSession, log: Log, chance: random.Random, root: Path) -> _Telling:
        stage, brought = Stage(root, root / "home"), batches_that_bring_something(log)
        for folder in (stage.streams, stage.home):
            folder.mkdir(parents=True)
        return cls(spark, chance, stage, Feed(brought, stage.home), brought, [])

    def shares(self, drivers: int) -> list[int]:
        """How many batches each driver is given: cut anywhere."""
        within = range(1, len(self.brought))
        cuts = sorted(self.chance.sample(within, min(drivers - 1, len(within))))
        return [end - start for start, end in zip([0, *cuts], [*cuts, len(self.brought)], strict=True)]

    def live(self, edition: Edition, share: int, *, first: bool) -> None:
        groups = self.chance.randint(1, 5)
        self.stage.write_spec({**spec_of(edition), "key_groups": groups})
        if first:
            self.stage.stream_home.prepare()
            lineage = start_lineage(self.stage.stream_home, spec=LineageSpec(document_of(self.stage.spec())))
        else:
            lineage = self.go_on(self.spark, self.stage, self.chance.randint(1, groups))
        self.feed.punctuations = self.stage.stream_home.punctuations(lineage)
        for _ in range(share):
            self.feed.write_next()
        catch_up(self.spark, self.stage)
        allow_wider_types(self.spark, self.stage)
        self.lived.append((lineage, edition))

    def told(self, editions: list[Edition]) -> Told:
        batches: list[Batch] = []
        edition_of: list[Edition] = []
        place: dict[tuple[str, int], int] = {}
        for number, (lineage, edition) in enumerate(self.lived):
            committed = CheckpointLog(self.stage.stream_home.checkpoint(lineage)).committed()
            for batch in committed:
                place[lineage, batch.batch_id] = len(batches)
                if number and batch.batch_id == SEED_BATCH:
                    continue
                batches.append(given(self.feed.batch_of(batch.files, batch.at_ms), edition))
                edition_of.append(edition)
        rows = {name: records_of(self.spark, uri_of(self.stage.table(name))) for name in TABLES}
        for row in rows["sessions"]:
            assert not (row["batch_id"] == SEED_BATCH and row["lineage"] != self.lived[0][0]), "a seed emits nothing"
            row["batch_id"] = place[row["lineage"], row["batch_id"]]
        return Told(editions, batches, edition_of, rows)


def reader_of(
    spark: SparkSession,
    stage: Stage,
    history: str,
    live_from: str,
    until_ms: int | None,
    *,
    table: tuple[str | None, str | None] = (None, None),
    query: str | None = None,
) -> HistoryReader:
    """What would be taken. ``table``: its name and the user, in a database. ``query``: of a table or a state."""
    spec = stage.spec()
    past, source = find_history(history, spec.source, *table, query)
    pending = pending_operation(stage.stream_home)
    leaves = stage.lineage if pending is None else pending.lineage_from or None
    decision = SeedPlan(stage.name, spec_fingerprint(spec), past, until_ms, live_from, True, leaves)
    return HistoryReader(spark, spec, examine(spark, spec, stage.home), source, decision, stage.home)


def seed(stage: Stage, reader: HistoryReader, say: Callable[[str], None] = lambda _: None) -> OperationRecord:
    home = stage.stream_home
    home.prepare()
    left = (reader.decision.leaves or "", -1)
    record = pending_operation(home) or new_operation(home, Seed.name, reader.decision.digest, "tests", left)
    command = seed_command("history", reader)
    runner = SeedRunner(spark=reader.spark, home=home, say=say, command=command, reader=reader)
    return run_here(home, record, runner, say)


def seed_command(history: str, reader: HistoryReader) -> Seed:
    decision = reader.decision
    return Seed(history=history, backfill=decision.backfill, start_over=decision.leaves is not None)
