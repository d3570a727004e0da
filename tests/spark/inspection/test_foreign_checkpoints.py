"""Checkpoints that plain Spark made, of each kind of state: described, counted, every damage named, nothing written."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionizer.checkpoint.files import hadoop_file
from sessionizer.inspection.checkpoint_read import read_checkpoint
from sessionizer.inspection.damages import CheckpointDamage, Effect, RemedyStep, damages
from sessionizer.inspection.inspect import Inspection, inspect
from sessionizer.spark.state.restores.table_rows import count_store_rows
from support.checkpoints.fabricated_checkpoints import Held, Way
from support.checkpoints.foreign_queries import IN_FILES, ROCKSDB, ROWS_PER_FILE, Make, feed, made, run
from support.expected.file_accesses import folder_digest, settled_digest
from support.places import known

FILES: Final = 2
KINDS: Final = {
    "aggregation": ("aggregation", ["default"]),
    "session_window": ("session window", ["default"]),
    "deduplication": ("deduplication within the watermark", ["default"]),
    "join": (
        "stream-stream join",
        [f"{side}-{store}" for side in ("left", "right") for store in ("keyToNumValues", "keyWithIndexToValue")],
    ),
    "limit": ("limit", ["default"]),
    "transform_with_state": ("transformWithState in Python (pandas)", ["default"]),
}
# rows of the last file: five keys, twenty ids; those of the file before are behind the watermark
ROWS: Final = {**dict.fromkeys(KINDS, 5), "deduplication": ROWS_PER_FILE, "join": ROWS_PER_FILE, "limit": 1}


@pytest.fixture(scope="module")
def foreign(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Checkpoints that Spark made, by their kind, and one of the older format."""
    root = tmp_path_factory.mktemp("foreign")
    for number in range(FILES):
        feed(root / "events", number)
    for kind in KINDS:
        with made(spark, Make()):
            run(spark, kind, root / "events", root / kind)
    with made(spark, Make(IN_FILES, "1")):
        run(spark, "aggregation", root / "events", root / "in_files")
    settled_digest(root)
    return {kind: root / kind for kind in (*KINDS, "in_files")}


def inspected(checkpoint: Path) -> Inspection:
    return known(inspect(checkpoint, deep=True))


@pytest.mark.parametrize("kind", [*KINDS, "in_files"])
def test_each_is_described(foreign: dict[str, Path], kind: str) -> None:
    found = inspected(foreign[kind])
    told, formats = found.to_json(), (1, "files and memory") if kind == "in_files" else (2, "RocksDB")
    assert (told["formats"]["state"], told["formats"]["provider"]) == formats
    assert found.findings == ()
    assert told["findings"] == []
    if kind == "in_files":
        return
    (operator,) = told["operators"]
    assert (operator["kind"], operator["stores"]) == KINDS[kind]
    assert operator["partitions"] == (1 if kind == "limit" else 2)
    assert told["formats"]["commits"] == "v2"
    assert told["committed"]["last"] == told["batches"]["begun"] >= FILES - 1
    assert {source["kind"] for source in told["sources"]} == {"files"}
    assert len(told["sources"]) == (2 if kind == "join" else 1)
    assert told["settings"]["spark.sql.shuffle.partitions"] == "2"
    assert re.fullmatch(r"[0-9a-f-]{36}", told["query_id"])
    assert told["next_watermark_ms"] >= told["watermark_ms"]


@pytest.mark.parametrize("name", [*KINDS, "in_files"])
def test_rows_are_counted_and_nothing_is_written(spark: SparkSession, foreign: dict[str, Path], name: str) -> None:
    before = folder_digest(foreign[name])
    counts = count_store_rows(spark, inspected(foreign[name]))
    assert {each["rows"] for each in counts} == {ROWS.get(name, 5)}, counts
    assert folder_digest(foreign[name]) == before


@pytest.mark.parametrize("name", [*KINDS, "in_files"])
def test_every_damaged_file_is_named_with_what_to_do(foreign: dict[str, Path], name: str) -> None:
    held = Held.of(foreign[name])
    newest = max(int(file.rpartition("/")[2]) for file in held.names if file.startswith("commits/"))
    # partitions are alike, and so are the stores of a join
    for file in (name for name in held.names if not re.match(r"state/0/(1/|0/(left-keyWith|right-))", name)):
        for way in Way:
            found = {each.file: each for each in damages(read_checkpoint(held.damaged(file, way).files(), deep=True))}
            if way is Way.REMOVED and re.search(r"\.(zip|snapshot)$", file):
                continue  # which snapshots there ever were nothing tells
            assert file in found, (file, way)
            assert found[file].remedy
            if file == f"commits/{newest}" and way is Way.REMOVED:
                assert "Hadoop's checksum" in found[file].wrong


LOST: Final = "lost"
"""Gone, and what Hadoop noted of it with it."""
MAKES: Final = {
    "format 2": ("aggregation", Make()),
    "format 2 of Python": ("transform_with_state", Make()),
    "format 1 in files": ("aggregation", Make(IN_FILES, "1")),
    "format 1 of RocksDB": ("aggregation", Make(ROCKSDB, "1")),
}
FED: Final = 4


@dataclass(frozen=True, slots=True)
class Trial:
    """A query with a checkpoint, and what it emits from there on when nothing is damaged."""

    spark: SparkSession
    kind: str
    events: Path
    checkpoint: Path
    held: Held
    last: list[str]
    """Rows of the newest batch that was over."""
    rows: list[str]

    @classmethod
    def of(cls, spark: SparkSession, kind: str, root: Path) -> Trial:
        events, checkpoint = root / "events", root / "checkpoint"
        emitted: dict[int, list[str]] = {}
        for number in range(FED):
            feed(events, number)
            emitted |= run(spark, kind, events, checkpoint)
            time.sleep(0.7)  # so long that Spark's maintenance writes a snapshot, if it wants to: either way is right
        feed(events, FED)
        held = Held.of(checkpoint)
        rows = sorted(row for batch in run(spark, kind, events, checkpoint).values() for row in batch)
        return cls(spark, kind, events, checkpoint, held, emitted[max(emitted)], rows)

    def start(self) -> bool | None:
        """Whether it emits what it should, the newest batch once more or not; None if it dies."""
        try:
            emitted = run(self.spark, self.kind, self.events, self.checkpoint)
        except PySparkException:
            return None
        except Exception as error:
            if "Py4J" in type(error).__name__:
                return None
            raise
        found = sorted(row for batch in emitted.values() for row in batch)
        return found in (self.rows, sorted([*self.rows, *self.last]))


def files_to_damage(held: Held) -> Iterator[str]:
    """One of each kind, of those that the next start may want, and of older ones."""
    newest = max(int(name.rpartition("/")[2]) for name in held.names if name.startswith("commits/"))
    yield from ("metadata", "sources/0/0", f"sources/0/{FED - 1}")
    yield from (f"{log}/{batch}" for log in ("offsets", "commits") for batch in (0, newest - 1, newest))
    state = "state/0/0/"
    for pattern in (
        rf"{state}{newest + 1}(_.*)?\.(delta|changelog)", rf"{state}1(_.*)?\.(delta|changelog)",
        rf"{state}\d+(_.*)?\.(zip|snapshot)", rf"{state}SSTs/.*", rf"{state}{newest + 1}(_.*)?\.changelog\.crc",
        r"state/0/_metadata/.*", r"state/0/0/_metadata/schema", r"state/0/_stateSchema/.*",
    ):  # fmt: skip
        yield from [name for name in held.names if re.fullmatch(pattern, name)][-1:]


def damaged(held: Held, name: str, way: Way | str) -> Held:
    if way != LOST:
        return held.damaged(name, Way(way))
    gone = {name, hadoop_file(name)}
    return Held({other: content for other, content in held.contents.items() if other not in gone})


def is_told_right(findings: list[CheckpointDamage], outcome: bool | None) -> bool:
    effects = {finding.effect for finding in findings}
    if outcome is None:
        return Effect.STOPS in effects
    # a changed file may be taken as it is without an effect on these rows
    return outcome or Effect.WRONG in effects


@pytest.mark.long
@pytest.mark.parametrize("make", MAKES)
def test_damage_does_what_is_told_and_the_steps_mend_it(spark: SparkSession, tmp_path: Path, make: str) -> None:
    kind, how = MAKES[make]
    wrong: list[tuple[object, ...]] = []
    with made(spark, how):
        trial = Trial.of(spark, kind, tmp_path)
        for name in files_to_damage(trial.held):
            for way in (Way.CUT, Way.FLIPPED, Way.REMOVED, LOST):
                hurt = damaged(trial.held, name, way)
                hurt.put(trial.checkpoint)
                found = known(inspect(trial.checkpoint))
                outcome = trial.start()
                told = [(each.file, each.effect.name) for each in found.findings]
                if not is_told_right(list(found.findings), outcome):
                    wrong.append((name, str(way), outcome, told))
                steps = list(dict.fromkeys(step for each in found.findings for step in each.steps))
                mends = mended(trial, hurt, steps) if steps else None
                if mends is False:
                    wrong.append((name, str(way), "the steps do not mend it", told))
                sys.stdout.write(f"{make} | {name} | {way} | {told} | starts right: {outcome} | mended: {mends}\n")
    assert not wrong, "\n".join(map(str, wrong))


def mended(trial: Trial, hurt: Held, steps: list[RemedyStep]) -> bool:
    hurt.put(trial.checkpoint)
    for step in steps:
        if step.source is None:
            (trial.checkpoint / step.file).unlink()
        else:
            shutil.copyfile(trial.checkpoint / step.source, trial.checkpoint / step.file)
    return trial.start() is True
