"""Whatever write a verb is killed before, or overtaken at, typed again it ends as if nothing had happened to it."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionizer.control.records.erasure_record import SECRET
from sessionizer.control.records.operation_record import pending_operation, read_operations, require_no_operation
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.home.data_files import list_names
from sessionizer.lineage.canary.canary_record import read_canary
from support.expected.landed import landed
from support.faults.killed_verbs import killed_before_each_write, overtaken_at_each_look
from support.places import opened
from support.processes.driver_process import TypedCommand
from support.processes.in_process import catch_up, drain
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec
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


FROZEN_S = 5
KILLED_AT = (
    "starting Spark",
    "savepoint: apply-",
    "new lineage: made",
    "new lineage: seeded",
    "new lineage: activated",
)
ON_CANARY = ("--new-lineage", "--roll-back-if-failed", "--canary", "2")
HALF, FILES = 2, 4


APPLY = ("apply",)


def digest_of(stage: Stage, *options: str) -> str:
    digest: str = TypedCommand.answer(stage, APPLY, *options)["digest"]
    return digest


@pytest.fixture
def new_stage(spark: SparkSession, tmp_path: Path) -> Callable[[str], Stage]:
    """A stopped stream that has read half of its files, and whose file says something else by now."""
    write_click_files(tmp_path / "clicks", files=FILES)

    def build(name: str) -> Stage:
        stage = Stage.begun(tmp_path / name, clicks_spec())
        stage.bring(sorted((tmp_path / "clicks").iterdir())[:HALF])
        catch_up(spark, stage)
        write_desired(stage.stream_home, DesiredState.STOPPED, by="ann", why="at night")
        stage.write_spec(clicks_spec(gap_timeout="5 seconds"))
        return stage

    return build


def assert_as_the_steady_one_of_killed_programs(spark: SparkSession, stage: Stage, steady: Stage, clicks: Path) -> None:
    """The stream ends as one through the same verb that nobody killed."""
    typed = TypedCommand.start(steady, APPLY, *ON_CANARY, "--approve", digest_of(steady, *ON_CANARY))
    assert typed.end() == 0, typed.said
    for each in (steady, stage):
        each.bring(sorted(clicks.iterdir())[HALF:])
        drain(spark, each)
    assert landed(steady).sessions
    assert landed(stage) == landed(steady)


def test_killed_at_each_line_that_it_says_it_is_finished_by_the_last_one(
    spark: SparkSession, tmp_path: Path, new_stage: Callable[[str], Stage]
) -> None:
    killed, steady = new_stage("killed"), new_stage("steady")
    home, before = killed.stream_home, killed.lineage
    digest = digest_of(killed, *ON_CANARY)
    for line in KILLED_AT:
        typed = TypedCommand.start(killed, APPLY, *ON_CANARY, "--approve", digest)
        typed.wait_for(line)
        typed.kill()
        activated = line.endswith("activated")
        assert activated or killed.lineage == before, line
    for _ in range(2):  # killed at its last line it may have been over already, and it is now
        typed = TypedCommand.start(killed, APPLY, *ON_CANARY, "--approve", digest)
        assert typed.end() == 0, typed.said
    assert "has carried out" in typed.said
    require_no_operation(home)
    assert len(read_operations(home)) == 1
    assert len(list(opened(home.lineages).iterdir())) == 2, "what was killed is gone"
    assert read_desired(home).state is DesiredState.STOPPED
    canary = read_canary(home, str(killed.lineage))
    assert canary is not None
    assert (canary.terms.batches, canary.terms.goes_back, canary.before) == (2, True, before)
    assert_as_the_steady_one_of_killed_programs(spark, killed, steady, tmp_path / "clicks")


def test_while_one_is_frozen_another_does_nothing_and_it_goes_on_itself(
    spark: SparkSession, tmp_path: Path, new_stage: Callable[[str], Stage]
) -> None:
    frozen, steady = new_stage("frozen"), new_stage("steady")
    home, before = frozen.stream_home, frozen.lineage
    digest = digest_of(frozen, *ON_CANARY)
    first = TypedCommand.start(frozen, APPLY, *ON_CANARY, "--approve", digest)
    first.wait_for("new lineage: seeded")
    first.process.send_signal(signal.SIGSTOP)
    second = TypedCommand.start(frozen, APPLY, *ON_CANARY, "--approve", digest, "--wait", str(FROZEN_S))
    assert second.end() != 0
    assert "still runs" in second.said
    assert frozen.lineage == before
    assert pending_operation(home) is not None
    assert read_desired(home).state is DesiredState.MAINTENANCE
    first.process.send_signal(signal.SIGCONT)
    assert first.end() == 0, first.said
    require_no_operation(home)
    assert read_desired(home).state is DesiredState.STOPPED
    assert_as_the_steady_one_of_killed_programs(spark, frozen, steady, tmp_path / "clicks")
