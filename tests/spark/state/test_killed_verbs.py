"""Whatever write a verb is killed before, or overtaken at, typed again it ends as if nothing had happened to it."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionizer.control.records.erasure_record import SECRET
from sessionizer.control.records.operation_record import pending_operation, read_operations, require_no_operation
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.home.data_files import list_names
from sessionizer.lineage.canary.canary_record import read_canary
from support.faults.killed_verbs import killed_before_each_write, overtaken_at_each_look
from support.places import known
from support.processes.driver_process import TypedCommand
from support.verbs.scene_verbs import VERBS, Scene, Verb

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "a secret of the tests")


@pytest.fixture
def verb(request: pytest.FixtureRequest) -> Verb:
    return VERBS[request.param]


@pytest.fixture
def prepared(spark: SparkSession, tmp_path: Path, verb: Verb) -> Callable[[str], Scene]:
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
        killed.stage.stream_home,
        lambda: verb.type(killed),
        killed.is_as_it_must_be,
        below=killed.stage.root,
        spared=verb.spared,
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


KILLED_AT = (
    "starting Spark", "savepoint: apply-", "new lineage: made", "new lineage: seeded", "new lineage: activated",
)  # fmt: skip
ON_CANARY = ("--new-lineage", "--roll-back-if-failed", "--canary", "2")


def start(scene: Scene, digest: str, *more: str) -> TypedCommand:
    return TypedCommand.start(scene.stage, ("apply",), *ON_CANARY, "--approve", digest, *more)


def digest_of(scene: Scene) -> str:
    return str(TypedCommand.answer(scene.stage, ("apply",), *ON_CANARY)["digest"])


IN_PROGRAMS = pytest.mark.parametrize("verb", ["apply_in_a_new_lineage"], indirect=True)


@IN_PROGRAMS
def test_killed_at_each_line_that_it_says_it_is_finished_by_the_last_one(
    verb: Verb, prepared: Callable[[str], Scene]
) -> None:
    killed, steady = prepared("killed"), prepared("steady")
    home, before, digest = killed.home, killed.stage.lineage, digest_of(killed)
    for line in KILLED_AT:
        typed = start(killed, digest)
        typed.wait_for(line)
        typed.kill()
        assert line.endswith("activated") or killed.stage.lineage == before, line
    for _ in range(2):  # killed at its last line it may have been over already, and it is now
        typed = start(killed, digest)
        assert typed.end() == 0, typed.said
    assert "has carried out" in typed.said
    assert len(read_operations(home)) == 1
    assert len(list_names(home.lineages)) == 2, "what was killed is gone"
    canary = known(read_canary(home, str(killed.stage.lineage)))
    assert (canary.terms.batches, canary.terms.goes_back, canary.before) == (2, True, before)
    verb.type(steady)
    assert_as_the_steady_one(killed, steady)


@IN_PROGRAMS
def test_while_one_is_frozen_another_does_nothing_and_it_goes_on_itself(
    verb: Verb, prepared: Callable[[str], Scene]
) -> None:
    frozen, steady = prepared("frozen"), prepared("steady")
    home, before, digest = frozen.home, frozen.stage.lineage, digest_of(frozen)
    first = start(frozen, digest)
    first.wait_for("new lineage: seeded")
    first.process.send_signal(signal.SIGSTOP)
    second = start(frozen, digest, "--wait", "5")
    assert second.end() != 0
    assert "still runs" in second.said
    assert frozen.stage.lineage == before
    assert pending_operation(home) is not None
    assert read_desired(home).state is DesiredState.MAINTENANCE
    first.process.send_signal(signal.SIGCONT)
    assert first.end() == 0, first.said
    verb.type(steady)
    assert_as_the_steady_one(frozen, steady)
