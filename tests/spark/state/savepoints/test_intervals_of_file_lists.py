"""Lists of files that a site's own interval divided, before drivers set it: Spark finds each part."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sessionizer.checkpoint.file_lists import COMPACT_INTERVAL, PARTS, copy_list_of_files
from sessionizer.checkpoint.list_intervals import fitting_interval
from sessionizer.checkpoint.names import EVENTS, source_log
from sessionizer.control.records.operation_record import Ending
from sessionizer.home.data_files import list_names
from sessionizer.home.roots import uri_of
from sessionizer.spark.internals.java_class import java_class
from sessionizer.spark.query import assembly
from sessionizer.spark.session import temporary_settings
from support.expected.landed import assert_as_defined
from support.places import opened
from support.processes.in_process import catch_up, drain
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.restored_stream import Restored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.home.roots import DataPath
    from support.streams.click_files import ClickFiles

OF_THE_SITE = 50
MORE = 3
LIST_CLASS = "org.apache.spark.sql.execution.streaming.runtime.FileStreamSourceLog"


def site_stream(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> tuple[Stage, ClickFiles]:
    """A stream of an earlier release that has read the first ``files``, in as many batches. Then ``MORE`` have come."""
    stage = Stage.set_up(root, clicks_spec())
    written = write_click_files(root / "made", files + MORE, rate=6)
    made = sorted((root / "made").iterdir())
    stage.bring(made[:files])
    with monkeypatch.context() as earlier:
        earlier.setattr(assembly, "fitting_interval", lambda _checkpoint: OF_THE_SITE)
        catch_up(spark, stage)
    assert parts_of(stage.checkpoint) == {str(part) for part in range(files)}, "each file has a part, none is compact"
    stage.bring(made[files:])
    return stage, written


def parts_of(checkpoint: DataPath) -> set[str]:
    return {name for name in list_names(source_log(checkpoint, EVENTS)) if not name.startswith(".")}


@pytest.mark.long
def test_a_list_is_continued_that_lacks_a_compact_part(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a list for which Spark with ``PARTS`` would look for ``9.compact``, and end the query."""
    stage, written = site_stream(spark, tmp_path, monkeypatch, PARTS)
    drain(spark, stage)
    assert_as_defined(stage, written)


@pytest.mark.long
def test_such_a_stream_is_restored_from_a_native_savepoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, written = site_stream(spark, tmp_path, monkeypatch, PARTS + 2)
    restored = Restored.saved(spark, stage, PARTS, written, native=True)
    assert restored.restore().outcome is Ending.DONE
    drain(spark, stage)
    restored.assert_exact()


@pytest.mark.parametrize("interval", [1, 3, 10, 15, 20, 21, 22, 34, 50, 120])
def test_spark_finds_every_part_that_any_interval_left(spark: SparkSession, tmp_path: Path, interval: int) -> None:
    """Also in a copy of the list, as native savepoints and proofs have it."""
    for newest in (0, 8, 9, 10, 19, 24, 33, 45, 58, 60, 99, 119):
        for checkpoint in listed_by(interval, newest, tmp_path / str(newest)):
            assert read_by_spark(spark, checkpoint) == (newest, list(range(newest + 1))), checkpoint


def listed_by(interval: int, newest: int, root: Path) -> Iterator[Path]:
    """Yield a list as Spark writes it in this ``interval``, one whose older parts Spark has removed, and a copy."""
    write_list(root / "whole", interval, range(newest + 1))
    yield root / "whole"
    last_compact = (newest + 1) // interval * interval - 1
    write_list(root / "rest", interval, range(max(last_compact, 0), newest + 1))
    yield root / "rest"
    copy_list_of_files(root / "rest", EVENTS, newest, root / "copy")
    assert fitting_interval(root / "copy") == PARTS
    yield root / "copy"


def write_list(checkpoint: Path, interval: int, parts: Iterable[int]) -> None:
    folder = opened(source_log(checkpoint, EVENTS))
    folder.mkdir(parents=True)
    for part in parts:
        is_compact = (part + 1) % interval == 0
        held = range(part + 1) if is_compact else [part]
        entries = [json.dumps({"path": f"file:///{each}", "timestamp": each, "batchId": each}) for each in held]
        (folder / f"{part}{'.compact' if is_compact else ''}").write_text("\n".join(["v1", *entries]))


def read_by_spark(spark: SparkSession, checkpoint: Path) -> tuple[int, list[int]]:
    """Return the number of the newest part and those of all entries, as a query finds them when it starts."""
    with temporary_settings(spark, {COMPACT_INTERVAL: str(fitting_interval(checkpoint))}):
        found = java_class(spark, LIST_CLASS)(1, spark._jsparkSession, uri_of(source_log(checkpoint, EVENTS)))
        return found.getLatestBatchId().get(), [entry.batchId() for entry in found.restore()]
