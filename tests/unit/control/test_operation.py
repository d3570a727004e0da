"""An operation that lost the stream's lease to another run writes nothing, and what people want outlives every kill."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.causes.table import remedy_for
from sessionizer.control.lease import Lease, acquire
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    REQUEST_FILE,
    Ending,
    OperationRecord,
    OperationStage,
    abandon_unbegun,
    forget_approved,
    pending_operation,
    read_operations,
    require_no_operation,
    unbegun_commands,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.errors import DamagedFile, DriverStillRuns, LeaseHeld, LeaseLost, OperationPending
from sessionizer.home.clock import MINUTE
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from support.expected.file_accesses import folder_digest
from support.places import opened
from support.verbs.begun_restore import begun_restore, leave_waiting, write_operation
from support.verbs.scripted_runner import Killed, lose_lease

VERB, DIGEST = "rescale", "0123456789abcdef"


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    where = StreamHome.of(tmp_path, "clicks")
    where.prepare()
    write_desired(where, DesiredState.STOPPED, by="ann", why="at night")
    return where


def job_of(operation: Operation) -> Maintenance:
    record = operation.record
    return Maintenance(f"{VERB}-{record.id}", record.by, VERB, record.wanted)


def begun(home: StreamHome) -> Operation:
    record = pending_operation(home) or new_operation(home, VERB, DIGEST, "ann", ("old", 7))
    return Operation(home, record, lambda: None)


def run(home: StreamHome, work: Callable[[Operation, Lease], None], wait_s: float = 5) -> None:
    operation = begun(home)
    with hold_lease(home, job_of(operation), wait_s, lambda _: None) as lease:
        operation.permit = lease.check
        work(operation, lease)


def finish(operation: Operation, _: Lease) -> None:
    operation.finish("new")


@pytest.mark.parametrize(
    "go_on",
    [
        lambda operation: operation.reached(OperationStage.SEEDED),
        lambda operation: operation.note_rows("sessions 1", "2026-11-23"),
        lambda operation: operation.finish("other"),
        lambda operation: operation.abandon(),
    ],
)
def test_what_was_overtaken_by_another_run_changes_nothing_of_it(
    home: StreamHome, go_on: Callable[[Operation], None]
) -> None:
    def overtaken(operation: Operation, _: Lease) -> None:
        operation.reached(OperationStage.STOPPED)
        lose_lease(home)
        run(home, finish)
        after.append(folder_digest(home.root))
        go_on(operation)

    after: list[dict[str, str]] = []
    with pytest.raises(LeaseLost):
        run(home, overtaken)
    assert after == [folder_digest(home.root)]
    (record,) = read_operations(home)
    assert (record.outcome, record.lineage_to) == (Ending.DONE, "new")
    assert read_desired(home).state is DesiredState.STOPPED


def test_one_that_is_overtaken_as_it_ends_does_not_give_the_others_lease_up(home: StreamHome) -> None:
    def overtaken(operation: Operation, _: Lease) -> None:
        operation.reached(OperationStage.STOPPED)
        lose_lease(home)
        leases.append(acquire(home, job_of(operation).uid))  # the same job, typed again elsewhere

    leases: list[Lease] = []
    with pytest.raises(LeaseLost):
        run(home, overtaken)
    leases[0].check()
    with pytest.raises(LeaseHeld):
        acquire(home, "driver-1")
    assert read_desired(home).state is DesiredState.MAINTENANCE


def test_a_second_one_does_not_take_the_stream_out_of_the_hands_of_the_first(home: StreamHome) -> None:
    def typed_twice(operation: Operation, _: Lease) -> None:
        operation.reached(OperationStage.STOPPED)
        with pytest.raises(DriverStillRuns):
            run(home, finish, wait_s=0.1)
        assert read_desired(home).state is DesiredState.MAINTENANCE
        finish(operation, _)

    run(home, typed_twice)
    assert read_desired(home).state is DesiredState.STOPPED


def test_of_two_that_wait_for_one_driver_the_second_leaves_the_maintenance_to_the_first(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has the lease and no record yet, because it makes its plan again."""

    def typed_twice(operation: Operation, lease: Lease) -> None:
        monkeypatch.setattr("sessionizer.control.maintenance.live_drivers", lambda _: set())
        with pytest.raises(LeaseHeld):
            run(home, finish)
        assert read_desired(home).state is DesiredState.MAINTENANCE
        finish(operation, lease)

    run(home, typed_twice)
    assert read_desired(home).state is DesiredState.STOPPED


def test_what_was_wanted_is_known_after_a_kill_before_the_first_step(home: StreamHome) -> None:
    def killed(_: Operation, __: Lease) -> None:
        raise Killed

    with pytest.raises(Killed):
        run(home, killed)
    assert read_desired(home).state is DesiredState.MAINTENANCE
    assert pending_operation(home) is None
    run(home, finish)
    assert read_desired(home).state is DesiredState.STOPPED


def test_one_that_is_over_leaves_no_stream_in_maintenance_wherever_it_is_killed(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(operation: Operation, _: Lease) -> None:
        operation.finish("new")
        raise Killed

    with pytest.raises(Killed):
        run(home, killed)
    assert pending_operation(home) is None
    assert read_desired(home).state is DesiredState.STOPPED

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("sessionizer.control.operation.write_unless_abandoned", die)
        with pytest.raises(Killed):
            run(home, finish)
    assert read_desired(home).state is DesiredState.STOPPED, "and a second run is to be typed, or not"


def test_who_says_otherwise_meanwhile_has_the_last_word(home: StreamHome) -> None:
    write_desired(home, DesiredState.RUNNING, by="ann", why="")

    def stopped(operation: Operation, _: Lease) -> None:
        write_desired(home, DesiredState.STOPPED, by="bob", why="the machine goes")
        operation.finish("new")

    run(home, stopped)
    assert (read_desired(home).state, read_desired(home).by) == (DesiredState.STOPPED, "bob")


BEGUN = begun_restore(savepoint="20261122T080000-abc123")


def test_while_one_is_not_over_nothing_else_starts(home: StreamHome) -> None:
    write_operation(home, BEGUN.record_step(OperationStage.STOPPED))
    with pytest.raises(OperationPending, match=r"to 20261122T080000-abc123.*'stopped'") as raised:
        require_no_operation(home)
    assert "sessionizer status" in remedy_for(raised.value)
    write_operation(home, replace(BEGUN, outcome=Ending.DONE))
    require_no_operation(home)
    assert pending_operation(home) is None


def test_it_says_what_each_step_took_and_what_it_made() -> None:
    record = (
        BEGUN.record_step(OperationStage.STOPPED)
        .record_step(OperationStage.SEEDED, lineage_to="20261123T090000-abc123")
        .record_step(OperationStage.TAKEN_BACK)
    )
    assert record.lineage_to == "20261123T090000-abc123"
    assert [part.split()[0] for part in record.seconds.split(", ")] == ["stopped", "seeded", "taken_back"]
    assert record.has_done(OperationStage.SEEDED)
    assert not record.has_done(OperationStage.ACTIVATED)


def test_one_that_is_damaged_is_not_taken_for_none(home: StreamHome) -> None:
    write_operation(home, BEGUN)
    (home.control / f"operations/{BEGUN.id}.json").write_text("{")
    with pytest.raises(DamagedFile):
        require_no_operation(home)


def noted(home: StreamHome, verb: str = "rescale", *, lineage: str = "old", minutes_ago: int = 0) -> OperationRecord:
    record = new_operation(home, verb, "0123456789abcdef", "ann", (lineage, 7))
    begun_at = record.begun_at - minutes_ago * MINUTE
    return leave_waiting(home, replace(record, id=mint_id(begun_at), begun_at=begun_at))


def test_a_command_is_unbegun_until_its_first_step(home: StreamHome) -> None:
    assert unbegun_commands(home) == []
    record = noted(home)
    assert unbegun_commands(home) == [record]
    write_operation(home, record.record_step(OperationStage.STOPPED))
    assert unbegun_commands(home) == []


def test_each_command_that_waits_is_noted_the_newest_first(home: StreamHome) -> None:
    older, newer = noted(home, "restore", minutes_ago=5), noted(home)
    assert unbegun_commands(home) == [newer, older]


def test_a_command_that_begins_while_a_user_gives_it_up_keeps_its_record(home: StreamHome) -> None:
    begun = noted(home).record_step(OperationStage.STOPPED)
    write_operation(home, begun)
    assert not abandon_unbegun(home, begun, "olga")
    assert read_operations(home) == [begun]


def test_a_command_is_forgotten_with_its_earlier_tries(home: StreamHome) -> None:
    other, _, record = noted(home, "restore"), noted(home, minutes_ago=5), noted(home)
    forget_approved(home, record)
    assert unbegun_commands(home) == [other]
    forget_approved(home, other)
    assert unbegun_commands(home) == []


def test_the_same_command_that_was_approved_later_is_not_forgotten(home: StreamHome) -> None:
    given_up, later = noted(home, minutes_ago=5), noted(home)
    forget_approved(home, given_up)
    assert unbegun_commands(home) == [later]


def test_a_command_that_makes_a_lineage_ends_those_that_were_approved_for_the_one_before(home: StreamHome) -> None:
    over, _, later = noted(home), noted(home, "restore"), noted(home, "restore", lineage="new")
    forget_approved(home, over.record_step(OperationStage.ACTIVATED, lineage_to="new"))
    assert unbegun_commands(home) == [later]


def test_a_command_in_place_leaves_others_waiting(home: StreamHome) -> None:
    over, waiting = noted(home, "apply"), noted(home, "restore")
    forget_approved(home, over.record_step(OperationStage.ACTIVATED, lineage_to="old"))
    assert unbegun_commands(home) == [waiting]


def test_damage_of_a_note_does_not_fail_a_command(home: StreamHome) -> None:
    record = noted(home)
    opened(REQUEST_FILE.of(home, record.id).path).write_text("{")
    forget_approved(home, record)


def test_damage_does_not_pass_for_no_command(home: StreamHome) -> None:
    opened(REQUEST_FILE.of(home, noted(home).id).path).write_text("{")
    with pytest.raises(DamagedFile, match="requests"):
        unbegun_commands(home)
