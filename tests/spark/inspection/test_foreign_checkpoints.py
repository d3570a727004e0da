"""Checkpoints that plain Spark made, of each kind of state: described, counted, every damage named, nothing written."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from sessionizer.inspection.checkpoint_read import read_checkpoint
from sessionizer.inspection.inspect import Inspection, damages, inspect
from sessionizer.spark.state.restores.table_rows import count_store_rows
from support.checkpoints.fabricated_checkpoints import Held, Way
from support.checkpoints.foreign_queries import IN_FILES, QUERIES, ROWS_PER_FILE, Make, feed, made, run
from support.expected.file_accesses import folder_digest, settled_digest

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
ROWS: Final = {
    # rows of the last file: five keys, twenty ids; those of the file before are behind the watermark
    "aggregation": 5,
    "session_window": 5,
    "deduplication": ROWS_PER_FILE,
    "join": ROWS_PER_FILE,
    "limit": 1,
    "transform_with_state": 5,
}


@dataclass(frozen=True, slots=True)
class Foreign:
    """A checkpoint that Spark made."""

    kind: str
    folder: Path


@pytest.fixture(scope="module")
def foreign(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Foreign]:
    root = tmp_path_factory.mktemp("foreign")
    for number in range(FILES):
        feed(root / "events", number)
    found = {}
    for kind in QUERIES:
        with made(spark, Make()):
            run(spark, kind, root / "events", root / kind)
        found[kind] = Foreign(kind, root / kind)
    with made(spark, Make(IN_FILES, "1")):
        run(spark, "aggregation", root / "events", root / "in_files")
    found["in_files"] = Foreign("aggregation", root / "in_files")
    settled_digest(root)
    return found


def inspected(checkpoint: Foreign) -> Inspection:
    found = inspect(checkpoint.folder, deep=True)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_described(foreign: dict[str, Foreign], kind: str) -> None:
    found = inspected(foreign[kind])
    told = found.to_json()
    (operator,) = told["operators"]
    in_words, stores = KINDS[kind]
    assert (operator["kind"], operator["stores"]) == (in_words, stores)
    assert operator["partitions"] == (1 if kind == "limit" else 2)
    assert (told["formats"]["state"], told["formats"]["provider"], told["formats"]["commits"]) == (2, "RocksDB", "v2")
    assert told["committed"]["last"] == told["batches"]["begun"] >= FILES - 1
    assert {source["kind"] for source in told["sources"]} == {"files"}
    assert len(told["sources"]) == (2 if kind == "join" else 1)
    assert told["settings"]["spark.sql.shuffle.partitions"] == "2"
    assert re.fullmatch(r"[0-9a-f-]{36}", told["query_id"])
    assert told["next_watermark_ms"] >= told["watermark_ms"]
    assert found.findings == ()


def test_the_older_format_is_described(foreign: dict[str, Foreign]) -> None:
    told = inspected(foreign["in_files"]).to_json()
    assert (told["formats"]["state"], told["formats"]["provider"]) == (1, "files and memory")
    assert told["findings"] == []


@pytest.mark.parametrize("name", [*KINDS, "in_files"])
def test_rows_are_counted_and_nothing_is_written(spark: SparkSession, foreign: dict[str, Foreign], name: str) -> None:
    before = folder_digest(foreign[name].folder)
    counts = count_store_rows(spark, inspected(foreign[name]))
    assert {each["rows"] for each in counts} == {ROWS[foreign[name].kind]}, counts
    assert folder_digest(foreign[name].folder) == before


@pytest.mark.parametrize("name", [*KINDS, "in_files"])
def test_every_damaged_file_is_named_with_what_to_do(foreign: dict[str, Foreign], name: str) -> None:
    held = Held.of(foreign[name].folder)
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
