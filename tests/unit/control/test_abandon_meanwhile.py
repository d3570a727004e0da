"""``abandon`` and a command that begins at the same moment: the first record decides, and both keep to it."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.cli.state_commands import operations
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.execution import Step
from sessionizer.control.lease import Lease, acquire
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    OperationStage,
    abandon_unbegun,
    read_operations,
    unbegun_commands,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.errors import LeaseHeld, QueryFailed, SourceUnreachable, StreamMovedOn
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import leave_waiting, write_operation
from support.verbs.scripted_runner import ScriptedRunner, lose_lease

WITHIN_S = 120


@pytest.fixture
def home(platform: Platform) -> StreamHome:
    return platform.add_running("clicks")


def approved(home: StreamHome, verb: str = "rescale", lineage: str | None = None) -> OperationRecord:
    leaves = ("", -1) if verb == "seed" else (lineage or start_lineage(home), 7)
    return new_operation(home, verb, "0123456789abcdef", "ann", leaves)


def type_abandon(platform: Platform) -> BaseException | None:
    return CliRunner().invoke(app, ["abandon", "clicks", "--by", "olga", "--home", str(platform.home)]).exception


class Meeting:
    """The driver ends, and the command takes the lease, after ``abandon`` has looked and before it records anything.

    The command goes on once ``abandon`` is over.
    """

    def __init__(self, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
        self.command_waits, self.abandon_is_over = threading.Event(), threading.Event()
        self.lease, _ = platform.drive("clicks")
        look = operations._require_no_command

        def look_too_early(where: StreamHome) -> None:
            look(where)
            self.lease.release()
            assert self.command_waits.wait(WITHIN_S)

        monkeypatch.setattr(operations, "_require_no_command", look_too_early)
        self.platform = platform

    def wait(self) -> None:
        self.command_waits.set()
        assert self.abandon_is_over.wait(WITHIN_S)

    def hold(
        self, home: StreamHome, record: OperationRecord, runner: ScriptedRunner
    ) -> tuple[BaseException | None, BaseException | None]:
        with ThreadPoolExecutor() as pool:
            command = pool.submit(carry_out, home, record, "tests", WITHIN_S, runner)
            deadline = time.monotonic() + WITHIN_S
            while read_desired(home).state is not DesiredState.MAINTENANCE or not unbegun_commands(home):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            try:
                abandoned = type_abandon(self.platform)
            finally:
                self.abandon_is_over.set()
            return abandoned, command.exception(WITHIN_S)


def finish(_: Step, operation: Operation) -> str:
    operation.reached(OperationStage.STOPPED)
    return "new"


def fail_with(error: Exception) -> Callable[[Step, Operation], str]:
    def work(*_: Any) -> str:
        raise error

    return work


@pytest.mark.parametrize(
    "work",
    [
        finish,
        fail_with(SourceUnreachable("broker:9092", "refused")),
        fail_with(QueryFailed("clicks", "bad_data", "no")),
    ],
    ids=["works", "fails for now", "fails"],
)
def test_a_command_that_took_the_lease_too_late_does_not_undo_its_abandonment(
    platform: Platform,
    home: StreamHome,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Step, Operation], str],
) -> None:
    meeting, record = Meeting(platform, monkeypatch), approved(home)
    runner = ScriptedRunner(home=home, work=work, look=meeting.wait)
    abandoned, failure = meeting.hold(home, record, runner)
    assert abandoned is None
    assert isinstance(failure, StreamMovedOn)
    (kept,) = read_operations(home)
    assert (kept.outcome, kept.abandoned_by, kept.failure) == (Ending.ABANDONED, "olga", None)
    desired = read_desired(home)
    assert (desired.state, desired.by) == (DesiredState.RUNNING, "olga")
    assert runner.cleaned


@pytest.mark.parametrize("verb", ["rescale", "seed"])
def test_abandon_that_comes_too_late_leaves_the_command_its_maintenance(
    platform: Platform, home: StreamHome, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def work(step: Step, operation: Operation) -> str:
        done = finish(step, operation)
        meeting.wait()
        states.append(read_desired(home).state)
        return done

    states: list[DesiredState] = []
    meeting, record = Meeting(platform, monkeypatch), approved(home, verb)
    abandoned, failure = meeting.hold(home, record, ScriptedRunner(home=home, work=work))
    assert isinstance(abandoned, LeaseHeld)
    assert failure is None
    assert states == [DesiredState.MAINTENANCE]
    assert [each.outcome for each in read_operations(home)] == [Ending.DONE]
    assert read_desired(home).state is DesiredState.RUNNING, "as before a seed that abandon did not end"


@pytest.mark.parametrize(("verb", "then"), [("rescale", DesiredState.RUNNING), ("seed", DesiredState.STOPPED)])
def test_abandon_that_was_killed_before_it_ended_the_maintenance_is_typed_again(
    platform: Platform, home: StreamHome, verb: str, then: DesiredState
) -> None:
    record = leave_waiting(home, approved(home, verb))
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why=verb, afterwards=DesiredState.RUNNING)
    assert abandon_unbegun(home, record, "olga")
    assert type_abandon(platform) is None
    assert read_desired(home).state is then, "a stream whose seed was given up must not begin without its history"


def test_abandon_leaves_a_command_that_was_approved_meanwhile_its_maintenance(
    platform: Platform, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def approve_another(where: StreamHome, command: OperationRecord, by: str) -> bool:
        later.append(leave_waiting(where, approved(where, "restore", record.lineage_from)))
        return abandon_unbegun(where, command, by)

    record, later = leave_waiting(home, approved(home)), list[OperationRecord]()
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why="", afterwards=DesiredState.RUNNING)
    monkeypatch.setattr(operations, "abandon_unbegun", approve_another)
    assert type_abandon(platform) is None
    assert read_desired(home).state is DesiredState.MAINTENANCE
    assert unbegun_commands(home) == later


def test_abandon_that_was_overtaken_by_itself_does_not_give_the_others_lease_up(
    platform: Platform, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the same uid, because both are of the same operation."""

    def type_again_elsewhere(where: StreamHome) -> None:
        lose_lease(where)
        leases.append(acquire(where, f"abandon-{pending.id}"))

    pending = approved(home).record_step(OperationStage.STOPPED)
    write_operation(home, pending)
    leases: list[Lease] = []
    monkeypatch.setattr(operations, "remove_abandoned", type_again_elsewhere)
    assert type_abandon(platform) is None
    leases[0].check()
    with pytest.raises(LeaseHeld):
        acquire(home, "driver-1")
