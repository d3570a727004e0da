"""Every command's steps, on paper: killed or overtaken after each, the command ends as if nothing had happened."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sessionizer.control.execution import Step, execute
from sessionizer.control.lease import acquire
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    Ending,
    OperationStage,
    pending_operation,
    read_operations,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.errors import EventsGone, LeaseLost, PlanChanged, QueryFailed, SourceUnreachable
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.commands.command import Command
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.commands.steps import (
    Activate,
    Compare,
    DeleteLaterRows,
    KeepExcludedRanges,
    PointOfNoReturn,
    Prove,
    ReadHistory,
    StartEmptyLineage,
    StartLineage,
    Stop,
    WriteSpec,
)
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.effect import Verdict
from support.places import known
from support.streams.drawn_logs import drawn_cases
from support.verbs.scripted_runner import DIGEST, Killed, ScriptedRunner, lose_lease, plans, upgrade_decision

CASES = [(case, step) for case, (_, steps, _) in plans().items() for step in range(len(steps))]


@dataclass
class World:
    """What the steps of a command change: the lineage that is active, and the steps that were run to their ends."""

    home: StreamHome
    case: str
    active: str | None = None
    ran: list[str] = field(default_factory=list)

    @property
    def steps(self) -> tuple[Step, ...]:
        return plans()[self.case][1]

    def runner(self, die_after: int | None = None, then: Any = None) -> ScriptedRunner:
        def work(step: Step, operation: Operation) -> str | None:
            self.ran.append(type(step).__name__)
            if isinstance(step, Activate | WriteSpec):
                self.active = "new"
            if die_after is not None and step == self.steps[die_after]:
                then(operation)
            return "new" if isinstance(step, Activate | WriteSpec) else None

        last = plans()[self.case][2]
        return ScriptedRunner(
            home=self.home, work=work, steps=self.steps, last=last, digest=DIGEST, activated=lambda: self.active
        )

    def operation(self, permit: Any = lambda: None) -> Operation:
        verb = plans()[self.case][0]
        record = pending_operation(self.home) or new_operation(self.home, verb, DIGEST, "ann", ("old", 7))
        return Operation(self.home, record, permit)

    def assert_done(self) -> None:
        (record,) = read_operations(self.home)
        assert (record.outcome, record.lineage_to, self.active) == (Ending.DONE, "new", "new")
        assert read_desired(self.home).state is DesiredState.STOPPED


@pytest.fixture
def stopped(home: StreamHome) -> StreamHome:
    write_desired(home, DesiredState.STOPPED, by="ann", why="at night")
    return home


def test_each_command_has_its_plan_here() -> None:
    assert {verb for verb, _, _ in plans().values()} == set(COMMANDS)


@pytest.mark.parametrize("case", plans())
def test_the_steps_are_run_in_order_and_the_record_has_their_stages(stopped: StreamHome, case: str) -> None:
    world = World(stopped, case)
    done = execute(world.operation(), world.runner())
    assert world.ran == [type(step).__name__ for step in world.steps]
    world.assert_done()
    noted = [str(step.noted) for step in world.steps if step.noted]
    assert [part.split()[0] for part in done.seconds.split(", ")] == [*noted, "activated"]
    stages = [list(OperationStage).index(step.noted) for step in world.steps if step.noted]
    assert stages == sorted(stages), "a later try would skip a step that was not run"


@pytest.mark.parametrize(("case", "number"), drawn_cases(CASES, 30))
def test_killed_after_any_step_it_goes_on_and_repeats_nothing_that_is_kept(
    stopped: StreamHome, case: str, number: int
) -> None:
    def die(_: Operation) -> None:
        raise Killed

    world = World(stopped, case)
    with pytest.raises(Killed):
        execute(world.operation(), world.runner(number, die))
    before = list(world.ran)
    record = world.operation().record
    execute(world.operation(), world.runner())
    world.assert_done()
    again = world.ran[len(before) :]
    kept = {type(step).__name__ for step in world.steps if step.is_done(record)}
    assert not kept & set(again)
    names, last = ([type(step).__name__ for step in steps] for steps in plans()[case][1:])
    if {"Activate", "WriteSpec"} & set(names[: number + 1]):
        assert again == last, "nothing but what follows the decisive change"
    else:
        assert again == [name for name in names if name in again], "in the same order"


@pytest.mark.parametrize(("case", "number"), drawn_cases(CASES, 30))
def test_overtaken_after_any_step_it_does_no_other(stopped: StreamHome, case: str, number: int) -> None:
    """It was frozen, another process lost patience, typed the command again and finished it."""
    world, finished = World(stopped, case), list[str]()
    lease = acquire(stopped, "slow")

    def freeze(_: Operation) -> None:
        lose_lease(stopped)
        other = acquire(stopped, "quick")
        execute(world.operation(other.check), world.runner())
        finished.extend(world.ran)

    with pytest.raises(LeaseLost):
        execute(world.operation(lease.check), world.runner(number, freeze))
    assert world.ran == finished
    world.assert_done()


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize(("case", "number"), drawn_cases(CASES, 30))
def test_what_fails_at_any_step_is_abandoned_or_stays_for_the_next_try(
    stopped: StreamHome, case: str, number: int, passes: bool
) -> None:
    error = SourceUnreachable("broker:9092", "refused") if passes else QueryFailed("clicks", "bad_data", "no")

    def fail(_: Operation) -> None:
        raise error

    world = World(stopped, case)
    runner = world.runner(number, fail)
    with pytest.raises(type(error)):
        execute(world.operation(), runner)
    (record,) = read_operations(stopped)
    is_past = PointOfNoReturn() in world.steps[:number] or world.active is not None
    assert record.outcome is (None if passes or is_past else Ending.ABANDONED)
    assert record.failure is not None
    assert runner.cleaned == (1 if record.outcome is None else 2)
    if record.outcome is None:
        execute(world.operation(), world.runner())
        world.assert_done()


class Eighth(Command):
    """A command that no list of the product names."""

    name = "eighth"


@pytest.mark.parametrize("checks", [(PointOfNoReturn(),), ()])
@pytest.mark.parametrize("fails_at", [Stop(), PointOfNoReturn(), DeleteLaterRows(), Activate()])
def test_a_command_that_has_deleted_rows_can_only_be_completed(
    stopped: StreamHome, checks: tuple[Step, ...], fails_at: Step
) -> None:
    """The steps alone tell: the failure of a deletion may leave half of it done."""
    steps = (Stop(), *checks, DeleteLaterRows(), Activate())
    ran: list[Step] = []

    def work(step: Step, _: Operation) -> str | None:
        ran.append(step)
        if step == fails_at and ran.count(step) == 1:
            raise QueryFailed("clicks", "bad_data", "no")
        return "new" if step == Activate() else None

    record = new_operation(stopped, Eighth.name, DIGEST, "ann", ("old", 7))
    runner = ScriptedRunner(home=stopped, work=work, steps=steps, last=(), digest=DIGEST)
    with suppress(QueryFailed):  # a step that the plan has not got fails nowhere
        execute(Operation(stopped, record, lambda: None), runner)
    (record,) = read_operations(stopped)
    if DeleteLaterRows() not in ran:
        assert record.outcome is Ending.ABANDONED
        return
    if fails_at in steps:
        assert (record.outcome, record.is_past_return) == (None, True)
        execute(Operation(stopped, record, lambda: None), runner)
        (record,) = read_operations(stopped)
    assert (record.outcome, record.lineage_to) == (Ending.DONE, "new")


@pytest.mark.parametrize("case", plans())
def test_a_plan_that_has_changed_is_abandoned_before_its_first_step(stopped: StreamHome, case: str) -> None:
    world = World(stopped, case)
    runner = world.runner()
    runner.digest = "f" * 16
    with pytest.raises(PlanChanged):
        execute(world.operation(), runner)
    assert world.ran == []
    (record,) = read_operations(stopped)
    assert record.outcome is Ending.ABANDONED
    assert read_desired(stopped).state is DesiredState.STOPPED


@pytest.mark.parametrize("case", plans())
def test_what_is_impossible_by_now_is_abandoned_before_its_first_step(stopped: StreamHome, case: str) -> None:
    world = World(stopped, case)
    runner = world.runner()
    runner.refusal = EventsGone("clicks", ["a.json"])
    with pytest.raises(EventsGone):
        execute(world.operation(), runner)
    assert world.ran == []


@pytest.mark.parametrize("case", plans())
def test_after_the_point_of_no_return_no_new_plan_stops_it(stopped: StreamHome, case: str) -> None:
    """A record of an earlier release that was killed there goes on as well."""
    world = World(stopped, case)
    if PointOfNoReturn() not in world.steps:
        return
    operation = world.operation()
    operation.reached(OperationStage.SEEDED)
    runner = world.runner()
    runner.digest, runner.refusal = "f" * 16, EventsGone("clicks", ["a.json"])
    execute(operation, runner)
    world.assert_done()
    assert not {"Stop", "ReadHistory", "PointOfNoReturn"} & set(world.ran)
    assert "Activate" in world.ran


def test_a_history_that_was_read_settles_its_plan(stopped: StreamHome) -> None:
    world = World(stopped, "seed")
    operation = world.operation()
    operation.reached(OperationStage.TAKEN)
    runner = world.runner()
    runner.digest = "f" * 16
    execute(operation, runner)
    world.assert_done()
    assert "ReadHistory" not in world.ran


def test_a_proof_comes_first_and_is_not_run_again_while_the_stream_is_down(stopped: StreamHome) -> None:
    found = upgrade_decision(Verdict.MIGRATE)
    planned, plain = (each.plan(replace(found, request=each.request)) for each in (Upgrade(prove=True), Upgrade()))
    assert planned.steps == (Prove(), *plain.steps)
    assert planned.digest != plain.digest, "an approval of the one is none of the other"
    assert f"1. {Prove.says}" in "\n".join(planned.decision.lines())
    world = World(stopped, "upgrade proved")
    runner = world.runner()
    runner.steps = planned.steps
    execute(world.operation(), runner)
    assert "Prove" not in world.ran
    world.assert_done()


def test_open_sessions_are_left_behind_only_in_a_new_lineage_and_counted() -> None:
    found = replace(upgrade_decision(Verdict.IN_PLACE), open_sessions=321, migrations=())
    command = Upgrade(stateless=True)
    planned = command.plan(replace(found, request=command.request))
    assert planned.digest != Upgrade().plan(found).digest
    assert [type(step).__name__ for step in planned.steps][-3:] == ["Canary", "Activate", "WriteFinishedSessions"]
    shown = "\n".join(planned.decision.lines())
    assert "LOST: about 321 open sessions." in shown
    assert (StartEmptyLineage.says in shown, StartLineage.says in shown) == (True, False)
    assert planned.decision.to_json()["stateless"] is True
    terms = known(command.terms)
    assert not terms.judges_sessions


def test_what_a_restore_does_in_order() -> None:
    names = [type(step) for step in plans()["restore with ranges"][1]]
    assert names[:4] == [KeepExcludedRanges, Stop, StartLineage, Compare]
    assert ReadHistory not in names
