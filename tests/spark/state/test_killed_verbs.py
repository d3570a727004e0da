"""Whatever write a verb is killed before, or overtaken at, typed again it ends as if nothing had happened to it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.desired_state import DesiredState, read_desired, write_desired
from sessionizer.control.records.operation_record import pending_operation, require_no_operation
from sessionizer.deployment import apply_plan
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.lineage.trial.judging import Terms
from sessionizer.spark.state.lineages.applying import Applying
from sessionizer.state.lineages.standing import standing_of
from sessionizer.stream_spec.decisions import document_of
from support.expected.landed import landed
from support.faults.killed_verbs import killed_before_each_write, overtaken_at_each_look
from support.processes.in_process import catch_up, drain
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
from support.streams.typed_verbs import typed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

    from sessionizer.control.records.operation_record import OperationRecord

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

FILES, BEFORE, LATER = 6, 2, 4
SHORTER = clicks_spec(gap_timeout="5 seconds")


@dataclass(frozen=True, slots=True)
class Scene:
    """A stopped stream that has read some of its ``files``, in one lineage or two."""

    spark: SparkSession
    stage: Stage
    files: list[Path]

    @classmethod
    def at(cls, spark: SparkSession, root: Path) -> Scene:
        stage = Stage.set_up(root, clicks_spec())
        stage.stream_home.prepare()
        start_lineage(stage.stream_home, spec=LineageSpec(document_of(stage.spec())))
        write_click_files(root / "clicks", files=FILES)
        scene = cls(spark, stage, sorted((root / "clicks").iterdir()))
        scene.bring(0, BEFORE)
        catch_up(spark, stage)
        write_desired(stage.stream_home, DesiredState.STOPPED, by="ann", why="at night")
        return scene

    def bring(self, first: int, end: int) -> None:
        """Files of these numbers."""
        self.stage.feed.mkdir(parents=True, exist_ok=True)
        for file in self.files[first:end]:
            shutil.copy2(file, self.stage.feed)

    def is_as_it_must_be(self) -> None:
        """Between two runs: one lineage is active, and no driver starts while one is to be gone on with."""
        home = self.stage.stream_home
        assert standing_of(home).lineage == self.stage.lineage
        if pending_operation(home) is None:
            assert read_desired(home).state in {DesiredState.STOPPED, DesiredState.MAINTENANCE}


Verb = tuple["Callable[[Scene], None]", "Callable[[Scene], OperationRecord]"]
"""What makes it necessary, and the verb, typed once."""


def with_spec(spec: dict[str, Any]) -> Callable[[Scene], None]:
    return lambda scene: scene.stage.write_spec(spec)


def apply(scene: Scene, *, anew: bool) -> OperationRecord:
    home = scene.stage.stream_home
    terms = Terms(batches=1, goes_back=True) if anew else None
    applying = Applying(scene.spark, home, scene.stage.spec(), home.savepoints, anew, terms)

    def approve() -> tuple[str, tuple[str, int]]:
        plan = applying.plan()
        return plan.digest, (plan.lineage, plan.batch_id)

    return typed(home, apply_plan.VERB, approve, lambda operation, lease: applying.run(operation, lease.check))


VERBS: dict[str, Verb] = {
    "apply_in_place": (with_spec(SHORTER), lambda scene: apply(scene, anew=False)),
    "apply_in_a_new_lineage": (with_spec(SHORTER), lambda scene: apply(scene, anew=True)),
}


def ended(scene: Scene) -> Any:
    """The tables, once all files were read and every session is closed."""
    scene.bring(0, FILES)
    drain(scene.spark, scene.stage)
    return landed(scene.stage)


@pytest.mark.parametrize("name", ["apply_in_place"])
def test_killed_before_each_of_its_writes_a_verb_is_finished(spark: SparkSession, tmp_path: Path, name: str) -> None:
    prepare, verb = VERBS[name]
    killed, steady = Scene.at(spark, tmp_path / "killed"), Scene.at(spark, tmp_path / "steady")
    for scene in (killed, steady):
        prepare(scene)
    home, before = killed.stage.stream_home, set(killed.stage.stream_home.lineages.iterdir())
    record, fatal = killed_before_each_write(home, lambda: verb(killed), killed.is_as_it_must_be)
    verb(steady)
    assert sum("operations/" in name for name in fatal) >= 3, fatal
    assert record.lineage_to == killed.stage.lineage
    require_no_operation(home)
    assert read_desired(home).state is DesiredState.STOPPED
    made = set(home.lineages.iterdir()) - before
    assert len(made) == 0, "what was killed is gone"
    expected = ended(steady)
    assert expected.sessions
    assert ended(killed) == expected


@pytest.mark.parametrize("name", ["apply_in_a_new_lineage"])
def test_overtaken_at_any_look_at_its_lease_a_verb_writes_nothing(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    prepare, verb = VERBS[name]
    slow, steady = Scene.at(spark, tmp_path / "slow"), Scene.at(spark, tmp_path / "steady")
    for scene in (slow, steady):
        prepare(scene)
    record, times = overtaken_at_each_look(slow.stage.stream_home, lambda: verb(slow))
    verb(steady)
    assert times >= 4
    assert record.lineage_to == slow.stage.lineage
    require_no_operation(slow.stage.stream_home)
    expected = ended(steady)
    assert expected.sessions
    assert ended(slow) == expected
