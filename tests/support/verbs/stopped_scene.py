"""A stopped stream that has read the first of its files: what a verb is typed on."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessionizer.control.records.operation_record import pending_operation
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.lineage.active import locate_data, start_lineage
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.stream_spec.decisions import document_of
from support.expected.landed import landed
from support.processes.in_process import catch_up, drain
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome

FILES, BEFORE, LATER = 6, 2, 4
"""So many files there are; so many are read before anything is typed, and so many where another lineage reads some."""


@dataclass(slots=True)
class Scene:
    """``files``: all that the stream reads in the end, the first ``BEFORE`` of which it has read."""

    spark: SparkSession
    stage: Stage
    files: list[Path]

    @classmethod
    def at(cls, spark: SparkSession, root: Path, *, begun: bool = True) -> Scene:
        """``begun``: else it never ran, and its feed is empty."""
        stage = Stage.set_up(root, clicks_spec())
        stage.stream_home.prepare()
        write_click_files(root / "clicks", files=FILES)
        scene = cls(spark, stage, sorted((root / "clicks").iterdir()))
        if begun:
            start_lineage(stage.stream_home, spec=LineageSpec(document_of(stage.spec())))
            scene.read(0, BEFORE)
        write_desired(stage.stream_home, DesiredState.STOPPED, by="ann", why="at night")
        return scene

    @property
    def home(self) -> StreamHome:
        """With the data root of the active lineage, as the commands take it."""
        return locate_data(self.stage.stream_home)

    def read(self, first: int, end: int) -> None:
        """Have the files of these numbers read, one in a batch."""
        self._bring(first, end)
        catch_up(self.spark, self.stage)

    def _bring(self, first: int, end: int) -> None:
        feed = self.stage.home / str(document_of(self.stage.spec())["source"]["path"])
        feed.mkdir(parents=True, exist_ok=True)
        for file in self.files[first:end]:
            shutil.copy2(file, feed)

    def is_as_it_must_be(self) -> None:
        """Between two runs: one lineage is active, and no driver starts while one is to be gone on with."""
        pending = pending_operation(self.home)
        if self.stage.lineage is not None and (pending is None or pending.lineage_from):
            assert read_committed_batch(self.home).lineage == self.stage.lineage
        if pending is None:
            assert read_desired(self.home).state in {DesiredState.STOPPED, DesiredState.MAINTENANCE}

    def ended(self) -> Any:
        """The tables, once all files were read and every session is closed."""
        self._bring(BEFORE, FILES)
        drain(self.spark, self.stage)
        return landed(self.stage)
