"""Execution of an approved operation: the stream stopped, its lease held, the preconditions checked again.

Every verb that changes a stream's state comes through here (docs/adr/0125).
"""

from contextlib import nullcontext
from dataclasses import replace

from sessionizer.cli.terminal import say, translate_failure
from sessionizer.control.execution import StepRunner, execute
from sessionizer.control.lease import Lease
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.openlineage.reporter import RunReporter, command_run
from sessionizer.control.operation import Operation, give_back
from sessionizer.control.records.operation_record import (
    OPERATION_FILE,
    Ending,
    OperationRecord,
    OperationStage,
    forget_approved,
    pending_operation,
    require_not_abandoned,
    unbegun_commands,
    write_request,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.control.status.unfinished_operation import stays_stopped
from sessionizer.errors import LeaseLost, SessionizerError, StreamMovedOn, TerminalError, TransientError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import require_own_home_of_lineage
from sessionizer.state.commands.registry import require_as_planned


def carry_out(
    where: StreamHome, record: OperationRecord, why: str, wait_s: float, runner: StepRunner
) -> OperationRecord:
    """Run the steps of an approved operation. Return its record when it is done.

    Raises HomeCopied, StreamMovedOn, StreamBegun, OperationPending, DriverStillRuns, LeaseHeld, LeaseLost, PlanChanged,
    and the errors of the steps. The error's notes say in which state the stream is.
    """
    try:
        require_own_home_of_lineage(where)
        current = require_as_planned(where, record)  # before a driver is stopped for nothing
        if current.outcome is Ending.DONE:
            return current
        with runner.prepared(current) if pending_operation(where) is None else nullcontext():
            done = _run_stopped(where, current, why, wait_s, runner)
    except Exception as error:
        failure = translate_failure(where.name, error)
        if not isinstance(failure, TransientError):
            forget_approved(where, record)
        for line in _what_became_of(where, record, failure):
            failure.add_note(line)
        if failure is error:
            raise
        raise failure from error
    forget_approved(where, done)
    return done


def _run_stopped(
    where: StreamHome, current: OperationRecord, why: str, wait_s: float, runner: StepRunner
) -> OperationRecord:
    asked_at, desired = epoch_ms(), read_desired(where)
    # a user's newer desired state, such as of a stop between two tries, holds after the command
    wanted = current.wanted if desired.state is DesiredState.MAINTENANCE else desired.state
    job = Maintenance(f"{current.verb}-{current.id}", current.by, why, wanted, desired)
    write_request(where, replace(current, wanted=wanted, asked_at=asked_at))
    with hold_lease(where, job, wait_s, say, lambda: _require_not_given_up(where, current)) as lease:
        return _run_under_lease(where, replace(current, wanted=wanted), lease, runner, asked_at)


def _run_under_lease(
    where: StreamHome, record: OperationRecord, lease: Lease, runner: StepRunner, asked_at: int
) -> OperationRecord:
    """Run the steps. The wait for the lease is the work of the stop, which an earlier try may have done."""
    from sessionizer.spark.failures.query_failure import is_transient_failure, retry_late_worker  # noqa: PLC0415  fast --help

    current = _still_as_planned(where, record, lease)
    if current.outcome is Ending.DONE:
        return current
    current = replace(current, wanted=record.wanted)
    since = epoch_ms() if current.has_done(OperationStage.STOPPED) else asked_at
    operation = Operation(where, current, lease.check, is_transient_failure, since)
    with RunReporter(
        lambda: command_run(where, current.verb, current.id, current.begun_at, current.lineage_from or None), say
    ):
        return retry_late_worker(lambda: execute(operation, runner), say)


def _still_as_planned(where: StreamHome, record: OperationRecord, lease: Lease) -> OperationRecord:
    """Check the preconditions again. An operation that can never continue is abandoned."""
    _require_not_given_up(where, record)
    try:
        current = require_as_planned(where, record)
        _require_maintenance(where, current)
    except TerminalError as error:
        pending = pending_operation(where)
        if pending is None:
            give_back(where, record, lease.check)
        elif pending.id == record.id:
            Operation(where, pending, lease.check).abandon(error)
        raise
    return current


def _require_not_given_up(where: StreamHome, record: OperationRecord) -> None:
    """Raise StreamMovedOn if a user gave the command up. End the maintenance unless another command needs it."""
    found = OPERATION_FILE.of(where, record.id).require()
    try:
        require_not_abandoned(where, found)
    except StreamMovedOn:
        if pending_operation(where) is None and not unbegun_commands(where):
            give_back(where, record, lambda: None, by=found.abandoned_by if found else None)
        raise


def _require_maintenance(where: StreamHome, record: OperationRecord) -> None:
    """Raise StreamMovedOn if a user started the stream while the command waited for the driver's end.

    The user was told so, because an operation has no record before its first step. After a stop it goes on.
    """
    desired = read_desired(where)
    if record.outcome is None and desired.state is DesiredState.RUNNING and pending_operation(where) is None:
        how = f" ({desired.why})" if desired.why else ""
        meanwhile = f"while the {record.verb} waited for the driver's end"
        cause = f"{desired.by} set its desired state to RUNNING{how} {meanwhile}"
        raise StreamMovedOn(where.name, record.digest, cause)


def _what_became_of(where: StreamHome, record: OperationRecord, failure: SessionizerError) -> list[str]:
    if isinstance(failure, LeaseLost):
        return []
    try:
        pending, desired = pending_operation(where), read_desired(where)
    except SessionizerError:
        return []
    if pending is not None:
        return stays_stopped(pending) if pending.id == record.id else []
    if desired.state is DesiredState.MAINTENANCE:
        if any(each.id == record.id for each in unbegun_commands(where)):
            return stays_stopped(record, has_begun=False)
        stream = where.name
        return [f"another command has stream {stream}, or waits for it: `sessionizer status {stream}` names it"]
    stays = desired.state is DesiredState.STOPPED and record.never_ran
    so = "stays stopped because it never ran" if stays else f"its desired state is {desired.state}"
    return [f"stream {where.name} is unchanged, and {so}"]
