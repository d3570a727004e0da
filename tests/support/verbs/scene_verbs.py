"""Every verb that changes a stream's state, as its command carries it out on a stopped one; typed again it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.lease import acquire
from sessionizer.control.records.operation_record import read_operations
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import mint_id
from sessionizer.lineage.canary.canary_record import canary_of_active, write_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer.spark.driver.auto_rollback import roll_back_if_due
from sessionizer.spark.driver.options import DriverOptions
from sessionizer.spark.history.seed_runner import SeedRunner
from sessionizer.spark.state.commands.apply import ApplyRunner
from sessionizer.spark.state.commands.moves import RescaleRunner, SwitchRunner
from sessionizer.spark.state.commands.restores import RestoreRunner, RollbackRunner
from sessionizer.spark.state.savepoints.savepoint import make_savepoint
from sessionizer.state.commands import seeds as seed_plan
from sessionizer.state.commands.moves import Rescale, Start, Switch
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.seeds import Seed
from sessionizer.state.commands.upgrades import Apply
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import complete_savepoint
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest
from support.streams.stage import CLICK_COLUMNS, clicks_spec
from support.verbs.reseeded_stream import reseed
from support.verbs.seeded_stream import reader_of, seed_command
from support.verbs.stopped_scene import BEFORE, LATER
from support.verbs.typed_verbs import done_before, typed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sessionizer.control.records.operation_record import OperationRecord
    from support.verbs.stopped_scene import Scene

SHORTER = clicks_spec(gap_timeout="5 seconds")
DIVIDED = {**clicks_spec(), "key_groups": 6}
ELSEWHERE = {**clicks_spec(), "source": {**clicks_spec()["source"], "path": "other"}}
SAVEPOINT = "middle"
_ON_CANARY = CanaryTerms(batches=1, goes_back=True)


@dataclass(frozen=True, slots=True)
class Verb:
    """``prepare``: what makes it necessary; ``type``: the verb, typed once; ``makes``: lineages that stay.

    ``begun``: whether it is for a stream that has run.
    """

    prepare: Callable[[Scene], None]
    type: Callable[[Scene], OperationRecord]
    makes: int = 1
    begun: bool = True


def with_spec(spec: dict[str, Any]) -> Callable[[Scene], None]:
    """The stream's file says something else by now."""
    return lambda scene: scene.stage.write_spec(spec)


def with_another_source(scene: Scene) -> None:
    """Which is there, and has nothing yet."""
    (scene.stage.home / str(ELSEWHERE["source"]["path"])).mkdir()
    scene.stage.write_spec(ELSEWHERE)


def apply(scene: Scene, *, anew: bool) -> OperationRecord:
    """The changed spec."""
    home, command = scene.home, Apply(canary=1, roll_back_if_failed=True) if anew else Apply(canary=0)
    runner = ApplyRunner(
        spark=scene.spark, home=home, command=command, spec=scene.stage.spec(), savepoints=home.savepoints
    )
    return typed(home, command.name, runner.look, runner)


def rescale(scene: Scene) -> OperationRecord:
    """To other key groups and partitions."""
    home, command, groups = scene.home, Rescale(partitions=3), scene.stage.spec().key_groups
    runner = RescaleRunner(spark=scene.spark, home=home, command=command, key_groups=groups)
    return typed(home, command.name, lambda: command.plan(home.name, read_committed_batch(home), groups), runner)


def switch(scene: Scene) -> OperationRecord:
    """To the source that the file names now, from its beginning."""
    home, command, start = scene.home, Switch(start_at="earliest"), Start.of("earliest")
    runner = SwitchRunner(spark=scene.spark, home=home, command=command, spec=scene.stage.spec(), start=start)
    return typed(home, command.name, runner.look, runner)


def left_for_a_bad_one(scene: Scene) -> None:
    """Another lineage, of which its driver says that it is unfit, has read some files by a spec that is wrong."""
    scene.stage.write_spec({**SHORTER, "key_groups": DIVIDED["key_groups"]})
    reseed(scene.spark, scene.stage, canary=_ON_CANARY)
    scene.read(BEFORE, LATER)
    scene.stage.write_spec(clicks_spec())
    canary = canary_of_active(scene.home)
    assert canary is not None
    write_canary(scene.home, canary.decided(CanaryOutcome.FAILED, "it begins too many sessions"))


def roll_it_back(scene: Scene) -> OperationRecord:
    """To the lineage before."""
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


def restore(scene: Scene) -> OperationRecord:
    """To the savepoint."""
    kept, manifest = complete_savepoint(scene.stage.root / "savepoints", SAVEPOINT, epoch_ms())
    runner = RestoreRunner(spark=scene.spark, home=scene.home, command=Restore(), savepoint=kept, manifest=manifest)
    return typed(scene.home, Restore.name, runner.look, runner, savepoint=SAVEPOINT)


def archived(scene: Scene) -> None:
    """What came so far is in a table."""
    clicks = [str(file) for file in scene.files[:BEFORE]]
    rows = scene.spark.read.schema(CLICK_COLUMNS).json(clicks)
    rows.coalesce(1).write.format("delta").save(str(scene.stage.root / "archive"))


def seed(scene: Scene) -> OperationRecord:
    """With the archive, and what the source gets from now on."""
    home = scene.home
    done = done_before(home, Seed.name)
    if done is not None:
        return done
    archive = str(scene.stage.root / "archive")
    reader = reader_of(scene.spark, scene.stage, archive, seed_plan.NOW, None)
    runner = SeedRunner(spark=scene.spark, home=home, command=seed_command(archive, reader), reader=reader)
    return typed(home, Seed.name, lambda: runner.command.plan(reader.decision), runner)


VERBS = {
    "apply_in_place": Verb(with_spec(SHORTER), lambda scene: apply(scene, anew=False), makes=0),
    "apply_in_a_new_lineage": Verb(with_spec(SHORTER), lambda scene: apply(scene, anew=True)),
    "rescale": Verb(with_spec(DIVIDED), rescale),
    "switch": Verb(with_another_source, switch),
    "rollback": Verb(left_for_a_bad_one, roll_it_back, makes=0),
    "going_back": Verb(left_for_a_bad_one, start_a_driver_that_goes_back, makes=0),
    "restore": Verb(saved_and_gone_on, restore),
    "seed": Verb(archived, seed, begun=False),
    "start_over": Verb(archived, seed),
}
