"""A stream with a savepoint of its past, to which it is restored in the Spark of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from sessionizer.control.records.operation_record import OperationRecord, pending_operation
from sessionizer.core.definition.event import Batch
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import SavepointHome
from sessionizer.lineage.excluded_ranges import read_approved
from sessionizer.spark.state.commands.restores import RestoreRunner
from sessionizer.spark.state.savepoints.saved_state import make_savepoint
from sessionizer.state.commands.restores import Restore, RestorePlan
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import complete_savepoint
from sessionizer.state.savepoints.manifest import Manifest
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from support.expected.landed import assert_path_as_defined, batches_of, batches_on_path
from support.processes.in_process import catch_up
from support.streams.click_files import ClickFiles, write_click_files
from support.streams.stage import Stage, clicks_spec
from support.verbs.begun_restore import begun_restore, run_here

FILES = 5
SAVED_AFTER = 2
WITHOUT_CANARY = Restore(canary=0)


def save(
    spark: SparkSession, stage: Stage, name: str, batch_id: int | None = None, *, native: bool = False
) -> tuple[SavepointHome, Manifest]:
    """Make a savepoint of the stream: where it is, and what it says."""
    home = stage.stream_home
    committed, asked = read_committed_batch(home, batch_id), SavepointRequest(home.savepoints, "tests", name)
    if native:
        make_native_savepoint(home, committed, asked, lambda _: None)
    else:
        make_savepoint(spark, home, committed, asked, lambda _: None)
    return complete_savepoint(home.savepoints, name, epoch_ms())


@dataclass(slots=True)
class Restored:
    """A stream that has read its ``files``, and a savepoint of its past."""

    spark: SparkSession
    stage: Stage
    files: ClickFiles
    before: str
    savepoint: SavepointHome
    manifest: Manifest
    said: list[str] = field(default_factory=list)

    @classmethod
    def saved(
        cls, spark: SparkSession, stage: Stage, batch_id: int | None, files: ClickFiles, *, native: bool = False
    ) -> Restored:
        assert stage.lineage
        stage.record_spec()
        return cls(spark, stage, files, stage.lineage, *save(spark, stage, "middle", batch_id, native=native))

    def save(self, name: str) -> None:
        """Make a savepoint of now, which is the next one to be restored."""
        self.savepoint, self.manifest = save(self.spark, self.stage, name)

    def choose(self, name: str) -> None:
        """Have the savepoint of this name restored next."""
        self.savepoint, self.manifest = complete_savepoint(self.stage.stream_home.savepoints, name, epoch_ms())

    @classmethod
    def set_up(cls, spark: SparkSession, root: Path, data: str | None = None, *, native: bool = False) -> Restored:
        stage = Stage.set_up(root, clicks_spec(), data=data)
        files = write_click_files(stage.feed, FILES, rate=12)
        catch_up(spark, stage)
        return cls.saved(spark, stage, SAVED_AFTER, files, native=native)

    def plan(self, *exclude: str) -> RestorePlan:
        return self._runner(replace(WITHOUT_CANARY, exclude=exclude)).look().decision

    def _runner(self, command: Restore) -> RestoreRunner:
        home = self.stage.stream_home
        pending = pending_operation(home)
        return RestoreRunner(
            spark=self.spark,
            home=home,
            say=self.said.append,
            command=command,
            savepoint=self.savepoint,
            manifest=self.manifest,
            begun=read_approved(home, pending.id) if pending else None,
        )

    def restore(
        self, operation: str = "20261123T080000-abc123", exclude: Sequence[str] = (), command: Restore = WITHOUT_CANARY
    ) -> OperationRecord:
        home, runner = self.stage.stream_home, self._runner(replace(command, exclude=tuple(exclude)))
        record = pending_operation(home)
        if record is None:
            plan = runner.look()
            record = replace(
                begun_restore(operation, savepoint=self.manifest.id),
                digest=plan.digest,
                lineage_from=plan.leaves[0],
                batch_from=plan.leaves[1],
            )
        return run_here(home, record, runner, self.said.append)

    def batches(self, files: ClickFiles) -> list[Batch]:
        return batches_of(batches_on_path(self.stage.stream_home), files)

    def assert_exact(self) -> None:
        assert_path_as_defined(self.stage, self.files)
