"""After a command that failed: what `status` says, what gives the operation up, and what goes on with it."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from sessionizer import errors
from sessionizer.causes.table import remedy_for
from sessionizer.cli.app import app
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.cli.terminal import translate_failures
from sessionizer.control.execution import Step
from sessionizer.control.lease import acquire, write_lease
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    OperationStage,
    pending_operation,
    read_operations,
    require_no_operation,
    unbegun_commands,
)
from sessionizer.control.records.process_records import new_lease, this_process
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.canary.canary_record import canary_of_active
from support.places import opened
from support.processes.fabricated_platform import Platform, make_canary
from support.processes.ports import eventually
from support.verbs.begun_restore import write_operation
from support.verbs.scripted_runner import ScriptedRunner

DIGEST = "0123456789abcdef"
CREATE = ("savepoint", "create", "clicks", "--stop", "--native")


@pytest.fixture
def home(platform: Platform) -> StreamHome:
    return platform.add_running("clicks")


def begun(
    home: StreamHome,
    verb: str = "restore",
    step: OperationStage = OperationStage.STOPPED,
) -> OperationRecord:
    savepoint = "monday" if verb == "restore" else ""
    record = new_operation(home, verb, DIGEST, "ann", (start_lineage(home), 7), savepoint=savepoint)
    record = record.record_step(step)
    write_operation(home, record)
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why=verb, afterwards=record.wanted)
    return record


def fail(home: StreamHome, error: Exception) -> ScriptedRunner:
    def work(_: Step, operation: Operation) -> str:
        operation.reached(OperationStage.STOPPED)
        raise error

    return ScriptedRunner(home=home, work=work)


@pytest.mark.parametrize("passes", [True, False])
def test_status_tells_of_a_restore_that_failed(platform: Platform, home: StreamHome, passes: bool) -> None:
    error = (
        errors.SourceUnreachable("broker:9092", "refused") if passes else errors.QueryFailed("clicks", "bad_data", "no")
    )
    record = new_operation(home, "restore", DIGEST, "ann", (start_lineage(home), 7), savepoint="monday")
    with pytest.raises(type(error)):
        carry_out(home, record, "tests", 1, fail(home, error))
    shown = platform.call("status", "clicks").stdout
    assert type(error).__name__ in shown
    assert "restore to monday" in shown
    assert (record.command in shown) == passes
    assert ("sessionizer abandon clicks" in shown) == passes
    (told,) = json.loads(platform.call("status", "clicks", "--json").stdout)
    assert told["last_operation"]["failure"].startswith(type(error).__name__)
    assert told["last_operation"]["outcome"] == (None if passes else "abandoned")


def test_a_stop_between_two_tries_holds_after_the_command(home: StreamHome) -> None:
    record = begun(home)
    write_desired(home, DesiredState.STOPPED, by="olga", why="between two tries")

    def work(_: Step, operation: Operation) -> str:
        assert read_desired(home).state is DesiredState.MAINTENANCE
        operation.reached(OperationStage.SEEDED)
        return "b"

    carry_out(home, record, "again", 0, ScriptedRunner(home=home, work=work))
    assert read_desired(home).state is DesiredState.STOPPED
    assert [each.outcome for each in read_operations(home)] == [Ending.DONE]


def test_a_failure_of_long_ago_is_told_no_more(platform: Platform, home: StreamHome) -> None:
    record = begun(home).failed(errors.QueryFailed("clicks", "bad_data", "no"))
    write_operation(home, replace(record, outcome=Ending.ABANDONED, failed_at=1))
    assert "bad_data" not in platform.call("status", "clicks").stdout


def test_what_was_given_up_leaves_the_stream_as_it_was(platform: Platform, home: StreamHome) -> None:
    record = begun(home)
    assert "sessionizer abandon" in remedy_of_pending(home)
    assert abandon(platform) is None
    (noted,) = read_operations(home)
    assert (noted.id, noted.outcome) == (record.id, Ending.ABANDONED)
    desired = read_desired(home)
    assert (desired.state, desired.by) == (DesiredState.RUNNING, "olga")
    assert abandon(platform) is None, "and again it is harmless"


def abandon(platform: Platform) -> BaseException | None:
    return CliRunner().invoke(app, ["abandon", "clicks", "--by", "olga", "--home", str(platform.home)]).exception


def remedy_of_pending(home: StreamHome) -> str:
    with pytest.raises(errors.OperationPending) as refused:
        require_no_operation(home)
    return remedy_for(refused.value)


@pytest.mark.parametrize(
    ("verb", "step"),
    [
        ("restore", OperationStage.SEEDED),
        ("rollback", OperationStage.TAKEN_BACK),
        ("seed", OperationStage.SEEDED),
    ],
)
def test_what_has_changed_the_tables_cannot_be_given_up(
    platform: Platform, home: StreamHome, verb: str, step: OperationStage
) -> None:
    record = begun(home, verb, step)
    error = abandon(platform)
    assert isinstance(error, errors.OperationPastReturn)
    assert error.command == record.command
    assert pending_operation(home) == record
    assert "sessionizer abandon" not in remedy_of_pending(home)
    assert "sessionizer abandon" not in platform.call("status", "clicks").stdout


def test_what_a_process_carries_out_cannot_be_given_up(platform: Platform, home: StreamHome) -> None:
    record = begun(home)
    acquire(home, f"restore-{record.id}")
    assert isinstance(abandon(platform), errors.LeaseHeld)
    assert pending_operation(home) == record
    assert read_desired(home).state is DesiredState.MAINTENANCE


def test_what_a_silent_host_carried_out_is_given_up_after_a_wait_that_is_told(
    platform: Platform, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = begun(home)
    unseen = replace(this_process(), host="elsewhere")
    write_lease(home, new_lease(1, f"restore-{record.id}", unseen, epoch_ms()))
    monkeypatch.setattr("sessionizer.control.lease.TAKEOVER_AFTER_MS", 300)
    result = CliRunner().invoke(app, ["abandon", "clicks", "--home", str(platform.home)])
    assert result.exception is None
    assert f"restore-{record.id} on elsewhere" in result.stderr
    assert [each.outcome for each in read_operations(home)] == [Ending.ABANDONED]


def test_a_seed_that_is_given_up_leaves_nothing_of_its_history(platform: Platform, home: StreamHome) -> None:
    record = new_operation(home, "seed", DIGEST, "ann", ("", -1)).record_step(OperationStage.TAKEN)
    write_operation(home, record)
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why="seed", afterwards=DesiredState.RUNNING)
    opened(home.seeds / record.id).mkdir(parents=True)
    assert abandon(platform) is None
    assert not opened(home.seeds / record.id).exists()
    assert read_desired(home).state is DesiredState.STOPPED, "it would begin without its history"


def test_a_driver_that_was_too_slow_is_not_followed_by_another(platform: Platform, home: StreamHome) -> None:
    """A supervisor would start it by what the command was to leave, before the next try."""
    lease, _ = platform.drive("clicks")
    record = new_operation(home, "restore", DIGEST, "ann", (start_lineage(home), 7), savepoint="monday")
    with pytest.raises(errors.DriverStillRuns) as raised:
        carry_out(home, record, "tests", 0.1, fail(home, AssertionError()))
    assert record.command in "\n".join(raised.value.__notes__)
    desired = read_desired(home)
    assert (desired.state, desired.afterwards) == (DesiredState.MAINTENANCE, DesiredState.RUNNING)
    lease.release()
    shown = platform.call("status", "clicks").stdout
    assert "sessionizer abandon clicks" in shown
    assert abandon(platform) is None
    assert read_desired(home).state is DesiredState.RUNNING


@pytest.mark.parametrize("before", [DesiredState.RUNNING, DesiredState.STOPPED])
def test_each_command_that_waits_for_a_driver_is_given_up(
    platform: Platform, home: StreamHome, before: DesiredState
) -> None:
    lease, _ = platform.drive("clicks")
    write_desired(home, before, by="tom", why="")
    leaves = (start_lineage(home), 7)
    waiting = [new_operation(home, verb, DIGEST, "ann", leaves) for verb in ("rollback", "rescale")]
    for record in waiting:
        with pytest.raises(errors.DriverStillRuns):
            carry_out(home, record, "tests", 0.1, fail(home, AssertionError()))
    lease.release()
    assert abandon(platform) is None
    desired = read_desired(home)
    assert (desired.state, desired.by) == (before, "olga")
    assert [each.outcome for each in read_operations(home)] == [Ending.ABANDONED] * 2
    for record in waiting:
        with pytest.raises(errors.StreamMovedOn):
            carry_out(home, record, "tests", 0.1, fail(home, AssertionError()))


def test_a_command_that_is_given_up_while_it_waits_ends_at_once_and_leaves_the_next_one_its_maintenance(
    platform: Platform, home: StreamHome
) -> None:
    lease, _ = platform.drive("clicks")
    leaves = (start_lineage(home), 7)
    given_up, later = (new_operation(home, "restore", DIGEST, "ann", leaves, savepoint=to) for to in ("wrong", "right"))
    with ThreadPoolExecutor() as pool:
        first = pool.submit(carry_out, home, given_up, "tests", 300, fail(home, AssertionError()))
        eventually(lambda: [each.id for each in unbegun_commands(home)] == [given_up.id])
        assert abandon(platform) is None
        with pytest.raises(errors.DriverStillRuns) as raised:
            carry_out(home, later, "tests", 0.1, fail(home, AssertionError()))
        assert later.command in "\n".join(raised.value.__notes__)
        error = first.exception(120)
    assert isinstance(error, errors.StreamMovedOn)
    assert given_up.command not in "\n".join(error.__notes__)
    assert read_desired(home).state is DesiredState.MAINTENANCE
    lease.release()
    carry_out(home, later, "tests", 1, ScriptedRunner(home=home, work=lambda *_: leaves[0]))
    assert read_desired(home).state is DesiredState.RUNNING


def test_a_maintenance_of_an_earlier_release_names_no_command_and_is_ended(
    platform: Platform, home: StreamHome
) -> None:
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why="rescale", afterwards=DesiredState.STOPPED)
    assert abandon(platform) is None
    assert read_desired(home).state is DesiredState.STOPPED
    assert read_operations(home) == []


def test_a_maintenance_of_a_command_at_work_is_not_ended(platform: Platform, home: StreamHome) -> None:
    job = Maintenance("rescale-20261125T200000-abc123", "ann", "rescale", DesiredState.RUNNING)
    with hold_lease(home, job, 1, lambda _: None):
        assert isinstance(abandon(platform), errors.LeaseHeld)
        assert read_desired(home).state is DesiredState.MAINTENANCE


def test_a_lineage_is_not_accepted_that_is_being_left(
    platform: Platform, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback begins while the canary is read."""
    lineage = make_canary(home)

    def meanwhile(where: StreamHome) -> object:
        write_operation(home, new_operation(home, "rollback", DIGEST, "bob", (lineage, 7)))
        return canary_of_active(where)

    monkeypatch.setattr("sessionizer.lineage.canary.canary_record.canary_of_active", meanwhile)
    error = CliRunner().invoke(app, ["promote", "clicks", "--home", str(platform.home)]).exception
    assert isinstance(error, errors.OperationPending)


def test_a_savepoint_of_a_stopped_stream_is_not_of_one_that_was_started_again(
    platform: Platform, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_lineage(home)
    assert isinstance(
        platform.call("savepoint", "create", "clicks", "--stop", "--native").exception, errors.NothingToSave
    ), "nobody runs it"

    def meanwhile(*_: object) -> None:
        acquire(home, "c0ffee").release()

    monkeypatch.setattr("sessionizer.cli.savepoint.read_committed_batch", lambda *_: SimpleNamespace(lineage="one"))
    monkeypatch.setattr("sessionizer.cli.savepoint.make_native_savepoint", meanwhile)
    assert isinstance(platform.call(*CREATE).exception, errors.StreamRunsAgain)


@pytest.mark.parametrize("end", [typer.Exit(3), typer.Abort(), errors.SourceUnreachable("clicks", "no broker answers")])
def test_the_end_of_a_command_is_no_failure_of_spark(end: Exception) -> None:
    """A refusal that `apply --deep` prints keeps its exit code."""
    with pytest.raises(type(end)) as raised, translate_failures("clicks"):
        raise end
    assert raised.value is end
