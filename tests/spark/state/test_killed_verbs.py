"""Whatever write a verb is killed before, or overtaken at, typed again it ends as if nothing had happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.home.data_files import list_names
from support.faults.killed_verbs import killed_before_each_write, overtaken_at_each_look
from support.verbs.scene_verbs import VERBS
from support.verbs.stopped_scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.verbs.scene_verbs import Verb

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]


@pytest.fixture
def verb(request: pytest.FixtureRequest) -> Verb:
    return VERBS[request.param]


@pytest.fixture
def prepared(spark: SparkSession, tmp_path: Path, verb: Verb) -> Callable[[str], Scene]:
    """A scene in which the verb is to be typed."""

    def build(name: str) -> Scene:
        scene = Scene.at(spark, tmp_path / name, begun=verb.begun)
        verb.prepare(scene)
        return scene

    return build


def assert_as_the_steady_one(scene: Scene, steady: Scene) -> None:
    """Nothing is left to do, and both end with the same tables."""
    require_no_operation(scene.home)
    assert read_desired(scene.home).state is DesiredState.STOPPED
    expected = steady.ended()
    assert expected.sessions
    assert scene.ended() == expected


@pytest.mark.parametrize("verb", VERBS, indirect=True)
def test_killed_before_each_of_its_writes_a_verb_is_finished(verb: Verb, prepared: Callable[[str], Scene]) -> None:
    killed, steady = prepared("killed"), prepared("steady")
    before = set(list_names(killed.home.lineages))
    record, fatal = killed_before_each_write(
        killed.stage.stream_home, lambda: verb.type(killed), killed.is_as_it_must_be, below=killed.stage.root
    )
    verb.type(steady)
    assert sum("operations/" in name for name in fatal) >= 2, fatal
    assert record.lineage_to == killed.stage.lineage
    assert len(set(list_names(killed.home.lineages)) - before) == verb.makes, "what was killed is gone"
    assert_as_the_steady_one(killed, steady)


@pytest.mark.parametrize("verb", VERBS, indirect=True)
def test_overtaken_at_any_look_at_its_lease_a_verb_writes_nothing(verb: Verb, prepared: Callable[[str], Scene]) -> None:
    slow, steady = prepared("slow"), prepared("steady")
    before = set(list_names(slow.home.lineages))
    record, times = overtaken_at_each_look(slow.stage.stream_home, lambda: verb.type(slow), below=slow.stage.root)
    verb.type(steady)
    assert times >= 4
    assert record.lineage_to == slow.stage.lineage
    assert len(set(list_names(slow.home.lineages)) - before) == verb.makes, "what was overtaken is gone"
    assert_as_the_steady_one(slow, steady)
