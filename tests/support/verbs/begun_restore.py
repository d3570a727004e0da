"""Record of a restore that a user has approved and that has done nothing yet, and how a test leaves a record."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from sessionizer.control.execution import StepRunner, execute
from sessionizer.control.maintenance import Maintenance, hold_lease
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    OPERATION_FILE,
    OperationRecord,
    pending_operation,
    write_request,
)
from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.home.clock import epoch_ms
from sessionizer.home.record_file import have_folder
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.failures.query_failure import retry_late_worker
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.state.commands.command import Plan


def begun_restore(operation: str = "20261123T080000-abc123", *, savepoint: str = "nightly") -> OperationRecord:
    """Of the stream ``clicks``, which is to run afterwards, back to ``savepoint``."""
    now = epoch_ms()
    return OperationRecord(
        id=operation,
        verb="restore",
        stream="clicks",
        by="alice",
        digest="0123456789abcdef",
        savepoint=savepoint,
        lineage_from="20261121T080000-abc123",
        batch_from=60,
        wanted=DesiredState.RUNNING,
        begun_at=now,
        step_at=now,
    )


def write_operation(home: StreamHome, record: OperationRecord) -> None:
    have_folder(OPERATION_FILE.folder(home), "the record of an operation")
    OPERATION_FILE.of(home, record.id).write(record)


def leave_waiting(home: StreamHome, record: OperationRecord) -> OperationRecord:
    """Write the record, as a command leaves it that was approved and waits for the stream. Return it."""
    waiting = replace(record, asked_at=record.begun_at)
    write_request(home, waiting)
    return waiting


def run_planned(
    home: StreamHome,
    verb: str,
    approve: Callable[[], Plan[Any]],
    runner: StepRunner,
    savepoint: str = "",
    by: str = "tests",
) -> OperationRecord:
    """Resume the pending operation, else carry out what ``approve`` plans. Returns the record."""
    begun = pending_operation(home)
    if begun is None:
        plan = approve()
        begun = new_operation(home, verb, plan.digest, by, plan.leaves, savepoint=savepoint)
    return run_here(home, begun, runner)


def run_here(
    home: StreamHome, record: OperationRecord, runner: StepRunner, say: Callable[[str], None] = lambda _: None
) -> OperationRecord:
    """Carry the operation out in this process as a command does, with the lease of the stream. Returns its record."""
    job = Maintenance(f"{record.verb}-{record.id}", record.by or "tests", "tests", record.wanted)
    prepared = runner.prepared(record) if pending_operation(home) is None else nullcontext()
    with prepared, hold_lease(home, job, 10, say) as lease:
        operation = Operation(home, record, lease.check)
        return retry_late_worker(lambda: execute(operation, runner), say)


def carry_out(runner: SparkRunner[Any], *, savepoint: str = "") -> OperationRecord:
    """Have the runner plan and ann approve it, and carry it out here. Returns its record."""
    plan = runner.look()
    verb = runner.command.name
    record = new_operation(
        runner.home, verb, plan.digest, "ann", plan.leaves, savepoint=savepoint, decided=plan.decided
    )
    return run_here(runner.home, record, runner)


def approved(runner: SparkRunner[Any], *, digest: str | None = None) -> Operation:
    """An operation of the runner's plan, which a user approved, without a lease. ``digest``: of another plan."""
    plan, home = runner.look(), runner.home
    record = new_operation(home, runner.command.name, digest or plan.digest, "ann", plan.leaves)
    return Operation(home, record, lambda: None)
