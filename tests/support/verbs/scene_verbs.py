"""A stopped stream that has read the first of its files: what a verb is typed on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionizer.control.execution import StepRunner
from sessionizer.control.lease import acquire
from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    pending_operation,
    read_operations,
    require_no_operation,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.errors import OperationPending
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import locate_data, start_lineage
from sessionizer.lineage.canary.canary_record import canary_of_active, write_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer.lineage.excluded_ranges import read_approved
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.spark.driver.driver_loop import roll_back_if_due
from sessionizer.spark.driver.options import DriverOptions
from sessionizer.spark.history.seed_runner import SeedRunner
from sessionizer.spark.state.commands.erasures import EraseRunner
from sessionizer.spark.state.commands.moves import ApplyRunner, RescaleRunner, SwitchRunner
from sessionizer.spark.state.commands.restores import RestoreRunner, RollbackRunner
from sessionizer.spark.state.savepoints.saved_state import make_savepoint
from sessionizer.state.commands import seeds as seed_plan
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.erasures import Erase
from sessionizer.state.commands.moves import Rescale, Start, Switch
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.seeds import Seed
from sessionizer.state.commands.upgrades import Apply, Upgrade
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import complete_savepoint, list_savepoints
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.stream_spec.decisions import document_of
from support.expected.landed import landed
from support.places import known
from support.processes.in_process import catch_up, drain
from support.streams.click_files import write_click_files
from support.streams.stage import CLICK_COLUMNS, Stage, clicks_spec
from support.verbs.begun_restore import run_planned
from support.verbs.reseeded_stream import reader_of, reseed, seed_command

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
        else:
            with pytest.raises(OperationPending):
                require_no_operation(self.home)

    def ended(self) -> Any:
        self._bring(BEFORE, FILES)
        drain(self.spark, self.stage)
        return landed(self.stage)


BY = "ann"


def done_before(home: StreamHome, verb: str) -> OperationRecord | None:
    """The newest operation of the verb that is over: nobody types one again whose end was seen."""
    done = [each for each in read_operations(home) if each.verb == verb and each.outcome is Ending.DONE]
    return done[-1] if done else None


def typed(
    home: StreamHome, verb: str, approve: Callable[[], Plan[Any]], runner: StepRunner, *, savepoint: str = ""
) -> OperationRecord:
    """The record, done. ``approve``: gives the plan, unless it was approved before."""
    return done_before(home, verb) or run_planned(home, verb, approve, runner, savepoint, BY)


SHORTER = clicks_spec(gap_timeout="5 seconds")
DIVIDED = {**clicks_spec(), "key_groups": 6}
ELSEWHERE = {**clicks_spec(), "source": {**clicks_spec()["source"], "path": "other"}}
SAVEPOINT = "middle"


@dataclass(frozen=True, slots=True)
class Verb:
    """``prepare``: what makes it necessary; ``type``: the verb, typed once; ``makes``: lineages that stay.

    ``begun``: whether it is for a stream that has run. ``spared``: pattern of writes before which it is not killed,
    because another verb is.
    """

    prepare: Callable[[Scene], None]
    type: Callable[[Scene], OperationRecord]
    makes: int = 1
    begun: bool = True
    spared: str = ""


def with_spec(spec: dict[str, Any]) -> Callable[[Scene], None]:
    return lambda scene: scene.stage.write_spec(spec)


def with_another_source(scene: Scene) -> None:
    (scene.stage.home / str(ELSEWHERE["source"]["path"])).mkdir()
    scene.stage.write_spec(ELSEWHERE)


def by_file(scene: Scene, command: Apply) -> OperationRecord:
    home, spec = scene.home, scene.stage.spec()
    runner = ApplyRunner(spark=scene.spark, home=home, command=command, spec=spec, savepoints=home.savepoints)
    return typed(home, command.name, runner.look, runner)


def rescale(scene: Scene) -> OperationRecord:
    home, command, groups = scene.home, Rescale(partitions=3), scene.stage.spec().key_groups
    runner = RescaleRunner(spark=scene.spark, home=home, command=command, key_groups=groups)
    return typed(home, command.name, lambda: command.plan(home.name, read_committed_batch(home), groups), runner)


def switch(scene: Scene) -> OperationRecord:
    home, command, start = scene.home, Switch(start_at="earliest"), Start.of("earliest")
    runner = SwitchRunner(spark=scene.spark, home=home, command=command, spec=scene.stage.spec(), start=start)
    return typed(home, command.name, runner.look, runner)


def left_for_a_bad_one(scene: Scene) -> None:
    """Another lineage, of which its driver says that it is unfit, has read some files by a spec that is wrong."""
    scene.stage.write_spec({**SHORTER, "key_groups": DIVIDED["key_groups"]})
    reseed(scene.spark, scene.stage, canary=CanaryTerms(batches=1, goes_back=True))
    scene.read(BEFORE, LATER)
    scene.stage.write_spec(clicks_spec())
    canary = known(canary_of_active(scene.home))
    write_canary(scene.home, canary.decided(CanaryOutcome.FAILED, "it begins too many sessions"))


def roll_it_back(scene: Scene) -> OperationRecord:
    runner = RollbackRunner(spark=scene.spark, home=scene.home, command=Rollback())
    return typed(scene.home, Rollback.name, runner.look, runner)


def start_a_driver_that_goes_back(scene: Scene) -> OperationRecord:
    """As far as it is no other than any driver; nobody types anything."""
    home = scene.home
    lease = acquire(home, mint_id(epoch_ms()))
    try:
        options = DriverOptions(lease.uid, master="local[2]")
        roll_back_if_due(home, lease, options, lambda _: None)
    finally:
        lease.release()
    return read_operations(home)[-1]


def saved_and_gone_on(scene: Scene) -> None:
    """A savepoint beside the data, of a lineage that is no longer the active one."""
    home = scene.home
    asked = SavepointRequest(scene.stage.root / "savepoints", "tests", SAVEPOINT)
    make_savepoint(scene.spark, home, read_committed_batch(home), asked, lambda _: None)
    reseed(scene.spark, scene.stage)
    scene.read(BEFORE, LATER)


BY_FILE = Restore(with_file=True, key_groups=6, partitions=3)
MIGRATING = {**SHORTER, "migrations": [{"id": "same-keys", "key": "concat(key, '')"}]}


def saved_and_file_corrected(scene: Scene) -> None:
    """The stream went on after the savepoint, and its file was corrected since."""
    saved_and_gone_on(scene)
    scene.stage.write_spec(MIGRATING)


def restore(scene: Scene, command: Restore | None = None) -> OperationRecord:
    kept, manifest = complete_savepoint(scene.stage.root / "savepoints", SAVEPOINT, epoch_ms())
    home, pending, spec = scene.home, pending_operation(scene.home), scene.stage.spec()
    begun = read_approved(home, pending.id) if pending else None
    command = command or Restore()
    runner = RestoreRunner(
        spark=scene.spark, home=home, command=command, savepoint=kept, manifest=manifest, spec=spec, begun=begun
    )
    return typed(scene.home, Restore.name, runner.look, runner, savepoint=SAVEPOINT)


def archived(scene: Scene) -> None:
    clicks = [str(file) for file in scene.files[:BEFORE]]
    rows = scene.spark.read.schema(CLICK_COLUMNS).json(clicks)
    rows.coalesce(1).write.format("delta").save(str(scene.stage.root / "archive"))


def seed(scene: Scene) -> OperationRecord:
    home = scene.home
    if (done := done_before(home, Seed.name)) is not None:
        return done
    archive = str(scene.stage.root / "archive")
    reader = reader_of(scene.spark, scene.stage, archive, seed_plan.NOW, None)
    runner = SeedRunner(spark=scene.spark, home=home, command=seed_command(archive, reader), reader=reader)
    return typed(home, Seed.name, lambda: runner.command.plan(reader.decision), runner)


def with_savepoints(scene: Scene) -> None:
    home, committed = scene.home, read_committed_batch(scene.home)
    make_savepoint(scene.spark, home, committed, SavepointRequest(home.savepoints, "tests", "whole"), lambda _: None)
    make_native_savepoint(home, committed, SavepointRequest(home.savepoints, "tests", "copied"), lambda _: None)


def people_of(scene: Scene) -> tuple[str, ...]:
    """The users of the first rows that are whole."""
    rows = (line for line in scene.files[0].read_bytes().splitlines() if line.endswith(b"}"))
    return tuple(sorted({str(json.loads(row)["user_id"]) for row in islice(rows, 3)}))


def erase(scene: Scene) -> OperationRecord:
    home, people = scene.home, people_of(scene)
    command, folders = Erase(keys=str(scene.stage.root / "people")), (home.savepoints,)
    runner = EraseRunner(spark=scene.spark, home=home, command=command, people=people, folders=folders)
    done = typed(home, Erase.name, runner.look, runner)
    runner.finish()
    assert [each.id for each in list_savepoints(home.savepoints, epoch_ms())] == ["wholee"]
    return done


VERBS = {
    "apply_in_place": Verb(with_spec(SHORTER), lambda scene: by_file(scene, Apply(canary=0)), makes=0),
    "apply_in_a_new_lineage": Verb(
        with_spec(SHORTER), lambda scene: by_file(scene, Apply(canary=1, roll_back_if_failed=True))
    ),
    "rescale": Verb(with_spec(DIVIDED), rescale),
    "switch": Verb(with_another_source, switch),
    "rollback": Verb(left_for_a_bad_one, roll_it_back, makes=0),
    "going_back": Verb(left_for_a_bad_one, start_a_driver_that_goes_back, makes=0),
    "restore": Verb(saved_and_gone_on, restore),
    "restore_without_a_file": Verb(
        saved_and_gone_on, lambda scene: restore(scene, Restore(exclude=("clicks-*3.json",)))
    ),
    "restore_by_file_in_groups": Verb(saved_and_file_corrected, lambda scene: restore(scene, BY_FILE)),
    "upgrade_in_groups": Verb(
        with_spec(MIGRATING), lambda scene: by_file(scene, Upgrade(key_groups=6, partitions=3, canary=1))
    ),
    "upgrade_with_a_replay": Verb(
        with_spec(MIGRATING),
        lambda scene: by_file(scene, Upgrade(replay=True, key_groups=6, canary=1)),
        spared="savepoints/upgrade-|history/mark",
    ),
    "seed": Verb(archived, seed, begun=False),
    "start_over": Verb(archived, seed),
    "erase": Verb(with_savepoints, erase),
}
