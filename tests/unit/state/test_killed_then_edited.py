"""A command is killed after any step, and the stream's file is edited: the outcome that is told is the true one."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

import pytest

from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.execution import Step, execute
from sessionizer.control.lease import acquire
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    OperationStage,
    pending_operation,
    read_operations,
    require_no_operation,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.control.status.driver_status import read_driver
from sessionizer.control.status.unfinished_operation import abandon_command, find_unfinished_operation, stays_stopped
from sessionizer.errors import OperationPastReturn, OperationPending, PlanChanged
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, active_lineage, make_lineage, start_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE, LineageSpec, write_lineage_spec
from sessionizer.state.commands.command import Command
from sessionizer.state.commands.moves import Rescale, Switch
from sessionizer.state.commands.registry import COMMANDS, find_changed_lineage, require_abandonable, require_startable
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.seeds import Seed
from sessionizer.state.commands.steps import Activate, WriteSpec
from sessionizer.state.commands.upgrades import Apply, Upgrade
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin
from support.places import known
from support.streams.drawn_logs import drawn_cases
from support.verbs.scripted_runner import DIGEST, Killed, ScriptedRunner, lose_lease, plans

OTHER = "f" * 16
SINK = {"sink": {"path": None}, "source": {"format": "files", "path": "feed"}}
BEFORE, APPROVED = {**SINK, "gap": 30}, {**SINK, "gap": 20}
POINTS = [
    (case, number, is_noted)
    for case, (_, steps, _) in plans().items()
    for number, step in enumerate(steps)
    for is_noted in (False, True)[: 2 if step.noted else 1]
]


@dataclass
class Scene:
    """A stream with two lineages, and a command of ``case`` on it that dies after step ``dies_after``.

    ``is_noted``: the record had the step's stage by then.
    """

    home: StreamHome
    case: str
    dies_after: int
    is_noted: bool
    older: str
    left: str

    @classmethod
    def set_up(cls, home: StreamHome, case: str, dies_after: int, *, is_noted: bool) -> Scene:
        write_desired(home, DesiredState.STOPPED, by="ann", why="at night")
        older = start_lineage(home, spec=LineageSpec(BEFORE))
        return cls(home, case, dies_after, is_noted, older, start_lineage(home, older, spec=LineageSpec(BEFORE)))

    @property
    def verb(self) -> str:
        return plans()[self.case][0]

    def kill(self) -> OperationRecord:
        """Begin the command, which is killed. Returns its record as the next process reads it."""
        record = new_operation(self.home, self.verb, DIGEST, "ann", (self.left, 7))
        write_desired(self.home, DesiredState.MAINTENANCE, by="ann", why=self.verb, afterwards=record.wanted)
        # a driver that was restarted after the approval has applied a change of the owner
        write_lineage_spec(self.home, self.left, LineageSpec(BEFORE, since=epoch_ms()))
        operation = Operation(self.home, record, acquire(self.home, f"{self.verb}-{record.id}").check)
        with pytest.raises(Killed):
            execute(operation, self._runner(dies=True))
        lose_lease(self.home)
        return pending_operation(self.home) or record

    def type_again(self, record: OperationRecord) -> OperationRecord:
        runner = self._runner(dies=False)
        runner.digest = OTHER if COMMANDS[self.verb].reads_spec and self.verb != Restore.name else DIGEST
        return carry_out(self.home, record, "tests", 1, runner)

    def has_changed(self) -> bool:
        """Whether the stream goes on otherwise than before the command."""
        kept = SPEC_FILE.of(self.home, self.left).require()
        return active_lineage(self.home) != self.left or kept is None or kept.document != BEFORE

    def _runner(self, *, dies: bool) -> ScriptedRunner:
        _, steps, last = plans()[self.case]
        ran: list[Step] = []

        def work(step: Step, operation: Operation) -> str | None:
            lineage = self._change(step, operation.record)
            ran.append(step)
            if dies and len(ran) == self.dies_after + 1:
                if self.is_noted and step.noted is not None:
                    operation.reached(step.noted)
                raise Killed
            return lineage

        return ScriptedRunner(home=self.home, work=work, steps=steps, last=last, digest=DIGEST)

    def _change(self, step: Step, record: OperationRecord) -> str | None:
        if isinstance(step, WriteSpec):
            write_lineage_spec(self.home, self.left, LineageSpec(APPROVED, since=epoch_ms()))
            return self.left
        if not isinstance(step, Activate):
            return None
        lineage = self.older
        if record.verb != "rollback":
            lineage = make_lineage(self.home, LineageSpec(APPROVED))
            ORIGIN_FILE.of(self.home, lineage).write(Origin(record.verb, epoch_ms(), self.left, 7))
        activate_lineage(self.home, lineage, self.left)
        return lineage


@pytest.mark.parametrize(("case", "step", "is_noted"), drawn_cases(POINTS, 40))
def test_the_outcome_that_is_told_is_the_true_one(home: StreamHome, case: str, step: int, is_noted: bool) -> None:
    scene = Scene.set_up(home, case, step, is_noted=is_noted)
    record = scene.kill()
    had_changed, lineage = scene.has_changed(), active_lineage(home)
    assert had_changed == (find_changed_lineage(home, record) is not None)
    require_nothing_else_begins(home, scene.verb)
    if had_changed or record.is_past_return:
        with pytest.raises(OperationPastReturn) as refused:
            require_abandonable(home, record)
        assert refused.value.step == (OperationStage.ACTIVATED if had_changed else record.step)
    else:
        require_abandonable(home, record)
        assert abandon_command("clicks") in " ".join(stays_stopped(record))
    with suppress(PlanChanged):
        done = scene.type_again(record)
        assert (done.outcome, done.lineage_to) == (Ending.DONE, active_lineage(home))
    (record,) = read_operations(home)
    assert record.outcome is (Ending.DONE if scene.has_changed() else Ending.ABANDONED)
    assert active_lineage(home) == (lineage if had_changed else record.lineage_to or lineage), "it is changed once"
    assert read_desired(home).state is DesiredState.STOPPED


@pytest.mark.parametrize(
    ("case", "step"),
    [
        (case, len(steps) - 1)
        for case, (_, steps, _) in plans().items()
        if not isinstance(steps[-1], Activate | WriteSpec)
    ],
)
def test_nobody_is_told_to_give_up_what_can_only_be_completed(home: StreamHome, case: str, step: int) -> None:
    """The command dies in a step after the decisive one, such as in the rows of finished sessions."""
    record = Scene.set_up(home, case, step, is_noted=False).kill()
    told = known(find_unfinished_operation("clicks", record, read_driver(home, epoch_ms()), epoch_ms()))
    assert record.pending_error().step == OperationStage.ACTIVATED
    assert abandon_command("clicks") not in told.go_on
    assert abandon_command("clicks") not in " ".join(stays_stopped(record))


def require_nothing_else_begins(home: StreamHome, verb: str) -> None:
    if pending_operation(home) is None:
        assert read_desired(home).state is DesiredState.MAINTENANCE, "no supervisor starts a driver"
        return
    with pytest.raises(OperationPending):
        require_no_operation(home)
    for other in COMMANDS.keys() - {verb}:
        with pytest.raises(OperationPending):
            require_startable(home, other)


@pytest.mark.parametrize(
    "command",
    [
        Restore(time="2026-11-23T10:00Z", exclude=("a b", "c"), canary=3, roll_back_if_failed=True),
        Rollback(),
        Rescale(key_groups=8),
        Switch(start_at="latest", leave_unread=True),
        Apply(accept=("mapping.key",), new_lineage=True),
        Upgrade(prove=True, deep=True, key_groups=8, partitions=4),
        Restore(savepoint="s1", with_file=True, accept=("mapping.key",), key_groups=8, partitions=4),
        Seed(history="/old clicks", backfill=True),
    ],
)
def test_a_killed_command_is_resumed_with_every_option_that_it_was_given(command: Command) -> None:
    assert type(command).from_json(json.loads(json.dumps(command.to_json()))) == command
