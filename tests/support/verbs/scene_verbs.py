"""Every verb that changes a stream's state, as its command carries it out on a stopped one; typed again it goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.control.lease.lease import acquire
from sessionizer.control.records.operation_record import pending_operation, read_operations
from sessionizer.deployment.upgrade_plan import APPLY
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_root import uri_of
from sessionizer.home.names import minted_id
from sessionizer.lineage.trial.judging import Outcome, Terms
from sessionizer.lineage.trial.trial_record import trial_of_active, write_trial
from sessionizer.spark.driver.going_back import go_back_if_due
from sessionizer.spark.driver.options import DriverOptions
from sessionizer.spark.history.beginning import Beginning
from sessionizer.spark.state.lineages.applying import Applying
from sessionizer.spark.state.lineages.rescaling import rescaled
from sessionizer.spark.state.lineages.switching import Switching
from sessionizer.spark.state.restores.restore_planning import move_of, plan_restore
from sessionizer.spark.state.restores.restoring import Restoring
from sessionizer.spark.state.restores.rolling_back import plan_rollback, roll_back
from sessionizer.spark.state.savepoints.savepoint import make_savepoint
from sessionizer.state.lineages import rescale_plan, switch_plan
from sessionizer.state.lineages.rescale_plan import plan_rescale
from sessionizer.state.lineages.standing import standing_of
from sessionizer.state.lineages.switch_plan import Start
from sessionizer.state.restores import restore_plan, rollback_plan
from sessionizer.state.savepoints.making import SavepointRequest
from sessionizer.state.savepoints.shelf import complete_savepoint
from sessionizer.state.seeds import seed_plan
from support.streams.stage import CLICK_COLUMNS, clicks_spec
from support.verbs.reseeded_stream import reseed
from support.verbs.seeded_stream import taking_of
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
_ON_TRIAL = Terms(batches=1, goes_back=True)


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
    home = scene.home
    applying = Applying(scene.spark, home, scene.stage.spec(), home.savepoints, anew, _ON_TRIAL if anew else None)

    def approve() -> tuple[str, tuple[str, int]]:
        plan = applying.plan()
        return plan.digest, (plan.lineage, plan.batch_id)

    return typed(home, APPLY, approve, lambda operation, lease: applying.run(operation, lease.check))


def rescale(scene: Scene) -> OperationRecord:
    """To other key groups and partitions."""
    home = scene.home
    plan = plan_rescale(home.name, standing_of(home), scene.stage.spec().key_groups, 3, Terms())

    def approve() -> tuple[str, tuple[str, int]]:
        return plan.digest, (plan.lineage, plan.batch_id)

    return typed(
        home,
        rescale_plan.VERB,
        approve,
        lambda operation, lease: rescaled(scene.spark, plan, lease, operation, lambda _: None),
    )


def switch(scene: Scene) -> OperationRecord:
    """To the source that the file names now, from its beginning."""
    home = scene.home
    switching = Switching(scene.spark, home, scene.stage.spec(), Start.of("earliest"), Terms())

    def approve() -> tuple[str, tuple[str, int]]:
        plan = switching.plan()
        return plan.digest, (plan.lineage, plan.batch_id)

    return typed(home, switch_plan.VERB, approve, lambda operation, lease: switching.run(operation, lease.check))


def left_for_a_bad_one(scene: Scene) -> None:
    """Another lineage, of which its driver says that it is unfit, has read some files by a spec that is wrong."""
    scene.stage.write_spec({**SHORTER, "key_groups": DIVIDED["key_groups"]})
    reseed(scene.spark, scene.stage, trial=_ON_TRIAL)
    scene.read(BEFORE, LATER)
    scene.stage.write_spec(clicks_spec())
    trial = trial_of_active(scene.home)
    assert trial is not None
    write_trial(scene.home, trial.decided(Outcome.FAILED, "it begins too many sessions"))


def roll_it_back(scene: Scene) -> OperationRecord:
    """To the lineage before."""
    home, spark = scene.home, scene.spark

    def approve() -> tuple[str, tuple[str, int]]:
        plan = plan_rollback(spark, home)
        return plan.digest, (plan.leaves, plan.newest_batch)

    return typed(
        home,
        rollback_plan.VERB,
        approve,
        lambda operation, lease: roll_back(spark, operation, lease.check, lambda _: None),
    )


def start_a_driver_that_goes_back(scene: Scene) -> OperationRecord:
    """As far as it is no other than any driver; nobody types anything."""
    home = scene.home
    lease = acquire(home, minted_id(epoch_ms()))
    try:
        options = DriverOptions(lease.uid, master="local[2]")
        go_back_if_due(home, lease, options, lambda _: None)
    finally:
        lease.release()
    return read_operations(home)[-1]


def saved_and_gone_on(scene: Scene) -> None:
    """A savepoint beside the data, of a lineage that is no longer the active one."""
    home = scene.home
    asked = SavepointRequest(scene.stage.root / "savepoints", "tests", SAVEPOINT)
    make_savepoint(scene.spark, home, standing_of(home), asked, lambda _: None)
    reseed(scene.spark, scene.stage)
    scene.read(BEFORE, LATER)


def restore(scene: Scene, *, elsewhere: bool = False) -> OperationRecord:
    """To the savepoint; ``elsewhere``: in another data root."""
    home, spark, root = scene.home, scene.spark, scene.stage.root / "elsewhere"
    done = done_before(home, restore_plan.VERB)
    if done is None:
        kept, manifest = complete_savepoint(scene.stage.root / "savepoints", SAVEPOINT, epoch_ms())
        begun, terms = pending_operation(home) is not None, Terms(judges_sessions=False)
        move = move_of(home, manifest, root, begun=begun) if elsewhere else None
        plan = plan_restore(spark, home, kept, manifest, (), None, trial=terms, move=move)
        done = typed(
            home,
            restore_plan.VERB,
            lambda: (plan.decision.digest, (plan.decision.leaves, plan.newest_batch)),
            lambda operation, lease: Restoring(
                spark, move.taken if move else home, kept, manifest, lease, operation, lambda _: None, terms, move=move
            ).run(),
            savepoint=SAVEPOINT,
        )
    if elsewhere:
        scene.stage = replace(scene.stage, data=uri_of(root))
    return done


def archived(scene: Scene) -> None:
    """What came so far is in a table."""
    clicks = [str(file) for file in scene.files[:BEFORE]]
    rows = scene.spark.read.schema(CLICK_COLUMNS).json(clicks)
    rows.coalesce(1).write.format("delta").save(str(scene.stage.root / "archive"))


def seed(scene: Scene) -> OperationRecord:
    """With the archive, and what the source gets from now on."""
    home = scene.home
    done = done_before(home, seed_plan.VERB)
    if done is not None:
        return done
    archive = str(scene.stage.root / "archive")
    taking = taking_of(scene.spark, scene.stage, archive, seed_plan.NOW, None)
    return typed(
        home,
        seed_plan.VERB,
        lambda: (taking.decision.digest, (taking.decision.leaves or "", -1)),
        lambda operation, lease: Beginning(taking, lease, operation, lambda _: None).run(),
    )


VERBS = {
    "apply_in_place": Verb(with_spec(SHORTER), lambda scene: apply(scene, anew=False), makes=0),
    "apply_in_a_new_lineage": Verb(with_spec(SHORTER), lambda scene: apply(scene, anew=True)),
    "rescale": Verb(with_spec(DIVIDED), rescale),
    "switch": Verb(with_another_source, switch),
    "rollback": Verb(left_for_a_bad_one, roll_it_back, makes=0),
    "going_back": Verb(left_for_a_bad_one, start_a_driver_that_goes_back, makes=0),
    "restore": Verb(saved_and_gone_on, restore),
    "restore_elsewhere": Verb(saved_and_gone_on, lambda scene: restore(scene, elsewhere=True)),
    "seed": Verb(archived, seed, begun=False),
    "start_over": Verb(archived, seed),
}
