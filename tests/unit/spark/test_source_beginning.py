"""A source that was compacted, cloned or made anew: what it has lost, and what of it is unread."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from sessionizer.home.data_files import list_added_files, read_actions
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.state.lineages import source_beginning
from sessionizer.spark.state.lineages.source_beginning import going_on, unread_of
from sessionizer.state.commands.moves import Edge, Start
from sessionizer.state.lineages.committed_batch import CommittedBatch, Position
from sessionizer.stream_spec.document.stream import StreamSpec
from support.streams.stage import clicks_spec, topic_source

NO_SPARK = cast("SparkSession", None)
COMPACTION = 2


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is not asked."""
    monkeypatch.setattr(source_beginning, "source_ids", lambda _spark, _name, source, _home: {source.path: "id"})
    monkeypatch.setattr(source_beginning, "check_reachable", lambda _: None)


def spec_of(source: dict[str, Any]) -> StreamSpec:
    return StreamSpec.model_validate({**clicks_spec(), "name": "clicks", "source": source})


def added_by(table: Path, version: int) -> list[Path]:
    commit = table / "_delta_log" / f"{version:020d}.json"
    return [table / add["path"] for add in list_added_files(read_actions(commit))]


def lost_of(home: StreamHome, table: Path) -> list[str]:
    spec, offset = spec_of({"format": "delta", "path": str(table)}), {"reservoirId": "id", "reservoirVersion": 0}
    return [text.split(":")[0] for text in going_on(NO_SPARK, home, spec, offset, {})[0].lost]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two versions, and the compaction of both."""
    place = tmp_path / "table"
    for number in range(COMPACTION):
        write_deltalake(str(place), pa.table({"a": [number]}), mode="append")
    DeltaTable(str(place)).optimize.compact()
    return place


@pytest.mark.parametrize(
    ("gone", "lost"), [(None, []), (0, ["version 0"]), (1, ["version 0", "version 1"]), (COMPACTION, [])]
)
def test_only_files_that_brought_rows_count_as_lost(
    home: StreamHome, table: Path, gone: int | None, lost: list[str]
) -> None:
    for file in [] if gone is None else added_by(table, gone):
        file.unlink()
    assert lost_of(home, table) == lost


def test_a_clone_has_its_files_elsewhere(home: StreamHome, table: Path, tmp_path: Path) -> None:
    commit, (file,) = table / "_delta_log" / f"{1:020d}.json", added_by(table, 1)
    elsewhere = file.rename(tmp_path / "of the original.parquet")
    commit.write_text(commit.read_text().replace(file.name, f"file:{str(elsewhere).replace(' ', '%20')}"))
    assert lost_of(home, table) == []
    elsewhere.unlink()
    assert lost_of(home, table) == ["version 0", "version 1"]


@pytest.mark.parametrize(
    ("position", "unread"), [({"0": 4, "1": 6}, 0), ({"0": 1, "1": 6}, 3), ({"0": 10, "1": 0}, 10), ({"1": 6}, 4)]
)
def test_a_topic_made_anew_is_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: dict[str, int], unread: int
) -> None:
    def offsets(_spark: object, _source: object, _home: Path, start: Start) -> dict[str, dict[str, int]]:
        assert start.edge is Edge.LATEST
        return {"topic": {"0": 4, "1": 6}}

    monkeypatch.setattr(source_beginning, "offsets_at", offsets)
    source = spec_of(topic_source("localhost:9092", "topic")).source
    committed = cast("CommittedBatch", SimpleNamespace(position=Position("kafka", {"topic": position})))
    assert unread_of(NO_SPARK, source, tmp_path, committed).items == unread
