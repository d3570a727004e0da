"""A range of the source is left out: its rows are quarantined once, and the tables are as if it had never come."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionizer.checkpoint.log_entries import EVENTS, read_last_commit, read_planned_batch
from sessionizer.core.definition.oracle import sessionize
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.excluded_ranges import (
    NOTHING_EXCLUDED,
    ExcludedRange,
    ExcludedRanges,
    Records,
    read_excluded_ranges,
)
from sessionizer.spark.ingest.file_source.lines import FAULT, POSITION
from sessionizer.spark.ingest.source import mark_excluded
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.state.commands.moves import SwitchRunner
from sessionizer.state.commands.moves import Start, Switch
from support.expected.checkpoint_log import CheckpointLog
from support.expected.landed import Landed, as_landed, landed
from support.processes.in_process import catch_up, drain
from support.processes.kafka_broker import KafkaBroker
from support.streams.click_files import known_rows
from support.streams.kafka_clicks import Brought, brought_to_delta, brought_to_kafka
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import carry_out
from support.verbs.reseeded_stream import reseed
from support.verbs.restored_stream import SAVED_AFTER, Restored

BAD, NEXT = "clicks-00000003.json", "clicks-00000004.json"
ROWS, PARTS = 450, 3


def without_excluded(found: Landed) -> tuple[Landed, Counter[str]]:
    """The tables but for the rows that were left out, and the raw text of those."""
    apart = Counter({raw: count for (reason, raw), count in found.quarantine.items() if reason == "excluded"})
    kept = Counter({row: count for row, count in found.quarantine.items() if row[0] != "excluded"})
    return replace(found, quarantine=kept), apart


def test_the_query_is_the_same_where_nothing_is_left_out() -> None:
    rows: Any = object()
    assert mark_excluded(rows, NOTHING_EXCLUDED, "files") is rows


def test_the_query_decides_as_the_definition_does(spark: SparkSession) -> None:
    excluded_ranges = ExcludedRanges(
        (
            ExcludedRange("a", files=("file:/feed/a%20b.json", "hdfs://name:8020/feed/a.json")),
            ExcludedRange("c", records=Records("clicks", 0, 5, 9)),
            ExcludedRange("d", records=Records("clicks-0", 1, 5, 6)),
        )
    )
    positions = [
        "file:/feed/a%20b.json", "file:///feed/a%20b.json", "file:/feed/a b.json", "hdfs://name:8020/feed/a.json",
        "clicks-0-4", "clicks-0-5", "clicks-0-8", "clicks-0-9", "clicks-0-05", "clicks-1-5", "clicks-0-1-5",
        "clicks-0-1-6", "xclicks-0-5", "clicks-0-x", "clicks-0-", "", None,
    ]  # fmt: skip
    rows = spark.createDataFrame([(each, "malformed") for each in positions], f"{POSITION} string, {FAULT} string")
    found = {row[POSITION]: row[FAULT] for row in mark_excluded(rows, excluded_ranges, "files").collect()}
    assert {each for each in positions if found[each] == "excluded"} == {
        each for each in positions if each is not None and excluded_ranges.holds(each)
    }
    assert list(found.values()).count("excluded") == 7
    assert found[None] == "malformed"


def test_a_file_that_is_left_out_is_quarantined_once_and_the_rest_is_as_without_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    restored = Restored.set_up(spark, tmp_path)
    stage, home = restored.stage, restored.stage.stream_home
    plan, everything = restored.plan("clicks-*3.json"), restored.plan()
    assert any(line.startswith("  out   clicks-*3.json (1 file): ") for line in plan.lines())
    assert plan.digest != everything.digest
    with pytest.raises(InvalidSpec, match="be read again"):
        restored.plan("clicks-00000001.json")

    record = restored.restore(exclude=["clicks-*3.json"])
    assert record.lineage_to
    excluded_ranges = read_excluded_ranges(home, record.lineage_to)
    assert excluded_ranges.holds(f"file:{stage.feed / BAD}")
    assert read_excluded_ranges(home, restored.before) == NOTHING_EXCLUDED
    rescaled = reseed(spark, stage)
    assert read_excluded_ranges(home, rescaled) == excluded_ranges

    (stage.feed / NEXT).rename(stage.feed / f".{NEXT}")
    catch_up(spark, stage)
    log = CheckpointLog(stage.checkpoint)
    assert log.committed()[-1].files == {BAD}
    log.forget_last_commit()  # killed when all was written: the batch runs again
    (stage.feed / f".{NEXT}").rename(stage.feed / NEXT)
    drain(spark, stage)

    assert_as_if_it_had_never_come(restored)
    back = restored.plan()
    assert any(f"read again: lineage {rescaled} " in line for line in back.lines())


def assert_as_if_it_had_never_come(restored: Restored) -> None:
    """The bad file, whose rows are in quarantine, each once."""
    files = {**restored.files, BAD: ()}
    outcome = sessionize(restored.batches(files), rules_of(restored.stage.spec()))
    found, apart = without_excluded(landed(restored.stage))
    assert found == as_landed(outcome, [row for name in sorted(files) for row in files[name]])
    assert apart == Counter(row.value.decode("utf-8", errors="replace") for row in restored.files[BAD])


@pytest.mark.long
def test_a_savepoint_of_a_lineage_that_leaves_out_is_restored_with_its_ranges(
    spark: SparkSession, tmp_path: Path
) -> None:
    restored = Restored.set_up(spark, tmp_path)
    home = restored.stage.stream_home
    restored.restore(exclude=["clicks-*3.json"])
    first = restored.stage.lineage
    restored.save("later")
    catch_up(spark, restored.stage)
    assert any(line.startswith("  out   clicks-*3.json (1 file): ") for line in restored.plan().lines())
    restored.restore("20261123T090000-abc123")
    assert restored.stage.lineage not in {first, restored.before}
    assert read_excluded_ranges(home, restored.stage.lineage) == read_excluded_ranges(home, first)
    drain(spark, restored.stage)
    assert_as_if_it_had_never_come(restored)


@pytest.mark.long
def test_a_switch_of_the_source_leaves_nothing_out_of_the_new_one(spark: SparkSession, tmp_path: Path) -> None:
    restored = Restored.set_up(spark, tmp_path)
    stage, home = restored.stage, restored.stage.stream_home
    restored.restore(exclude=["clicks-*3.json"])
    other = tmp_path / "other"
    other.mkdir()
    for name in sorted(restored.files)[SAVED_AFTER + 1 :]:
        shutil.copy2(stage.feed / name, other)
    stage.write_spec({**clicks_spec(), "source": {**clicks_spec()["source"], "path": str(other)}})
    command, start = Switch(start_at="earliest", leave_unread=True), Start.of("earliest")
    switching = SwitchRunner(spark=spark, home=home, command=command, spec=stage.spec(), start=start)
    only = "        clicks-*3.json (1 file) is excluded in the old source only, because positions in the new one differ"
    assert only in switching.look().decision.lines()
    assert read_excluded_ranges(home, str(carry_out(switching).lineage_to)) == NOTHING_EXCLUDED
    drain(spark, stage)
    restored.assert_exact()


@pytest.fixture
def kafka(kafka_broker: KafkaBroker) -> Callable[[str], Brought]:
    def topic(name: str) -> Brought:
        kafka_broker.create_topic(name, partitions=2)
        return brought_to_kafka(kafka_broker, name)

    return topic


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Callable[[str], Brought]:
    return lambda name: brought_to_delta(spark, tmp_path / name)


def end_of(stage: Stage) -> Any:
    return read_planned_batch(stage.checkpoint, read_last_commit(stage.checkpoint) or 0).ends[EVENTS]


def moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


def ranges_between(kind: str, before: Any, now: Any, times: str) -> list[str]:
    """What was read between two places of a source, which came between two ``times``, as people type it."""
    if kind == "kafka by time":
        return [f"{topic}:{times}" for topic in before]
    if kind == "delta":
        return [f"version:{before['reservoirVersion']}-{now['reservoirVersion']}"]
    return [
        f"{topic}:{partition}:{offset}-{now[topic][partition]}"
        for topic, partitions in before.items()
        for partition, offset in partitions.items()
    ]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["kafka", "kafka by time", "delta"])
def test_a_range_of_records_or_versions_is_left_out_as_if_it_had_never_come(
    spark: SparkSession, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    sources: Callable[[str], Brought] = request.getfixturevalue(kind.partition(" ")[0])
    name = f"left-out-{kind.replace(' ', '-')}"  # one broker has the topics of all cases
    (source, bring), (other, bring_other) = sources(f"{name}-moved"), sources(f"{name}-steady")
    places = {"moved": source, "steady": other}
    moved, steady = (Stage.begun(tmp_path / name, {**clicks_spec(), "source": given}) for name, given in places.items())
    rows, size = known_rows(ROWS), ROWS // PARTS
    first, bad, last = (rows[part * size : (part + 1) * size] for part in range(PARTS))
    for stage, bring_to in ((moved, bring), (steady, bring_other)):
        bring_to(first)
        catch_up(spark, stage)
    restored, before, since = Restored.saved(spark, moved, None, {}), end_of(moved), epoch_ms()
    bring(bad)
    catch_up(spark, moved)
    until = epoch_ms()
    ranges = ranges_between(kind, before, end_of(moved), times=f"{moment(since)}/{moment(until)}")
    bring(last)
    bring_other(last)

    restored.restore(exclude=ranges)
    for stage in (moved, steady):
        drain(spark, stage)
    expected = landed(steady)
    assert expected.sessions
    assert expected.quarantine
    found, apart = without_excluded(landed(moved))
    assert found == expected
    assert apart.total() == len(bad)
