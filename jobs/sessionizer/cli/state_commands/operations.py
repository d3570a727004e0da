"""Commands on an operation: ``carry-out`` does its next step, ``abandon`` gives it up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from sessionizer.cli.places import Options, Stream, require_known_stream, shares
from sessionizer.cli.state_commands.changes import COURSES
from sessionizer.cli.state_commands.course import By, Shared, Wait, approver, note_pending
from sessionizer.cli.terminal import say
from sessionizer.control.lease import acquire, read_lease
from sessionizer.control.maintenance import end_job
from sessionizer.control.operation import Operation, give_back
from sessionizer.control.records.operation_record import (
    OPERATION_FILE,
    REQUEST_FILE,
    Ending,
    OperationRecord,
    OperationStage,
    abandon_unbegun,
    pending_operation,
    require_not_abandoned,
    unbegun_commands,
)
from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.control.records.supervision_records import DesiredState, end_maintenance, read_desired
from sessionizer.errors import InvalidSpec, LeaseHeld
from sessionizer.home.clock import epoch_ms, moment_text
from sessionizer.home.control_store import Store
from sessionizer.home.data_files import remove_tree
from sessionizer.home.names import is_command, mint_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.commands.registry import command_of, require_abandonable
from sessionizer.state.lineages.origin import remove_abandoned


@shares("streams", "home", "data", "master")
def carry_out(
    stream: Stream,
    operation: Annotated[str, typer.Argument(metavar="ID", help="Id of the request or of the operation.")],
    at: Options,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Only make the plan, or show it. Carry out nothing.")] = False,
    wait: Wait = 300.0,
) -> None:
    """Make the plan of a request, run an approved one, or resume an operation that was begun."""
    shared = Shared(stream=stream, wait=wait, **vars(at))
    with note_pending(shared):
        _carry_out(shared.home_of(stream), operation, shared, only_plan=plan)


def _carry_out(where: StreamHome, operation: str, shared: Shared, *, only_plan: bool) -> None:
    """Do the next step of an operation. One that failed, and was abandoned, is tried again under another id."""
    require_known_stream(where, shared.streams)
    files = (kind.of(where, operation) for kind in (OPERATION_FILE, REQUEST_FILE))
    file, found = next(((file, record) for file in files if (record := file.require())), (None, None))
    if file is None or found is None:
        raise InvalidSpec("ID", operation, f"Give the id that `sessionizer status {where.name}` shows")
    if only_plan and found.step is not OperationStage.REQUESTED:
        named = found.text or f"{found.verb} {found.id} of stream {where.name}"
        typer.echo(f"{named}\n  its last step is '{found.step}'")
        return
    if found.outcome is Ending.ABANDONED and found.abandoned_by is None:
        found = replace(found, id=mint_id(epoch_ms()))
    elif found.outcome is Ending.DONE:
        typer.echo(f"{found.verb} {found.id} of stream {where.name} is done, in lineage {found.lineage_to}")
        command, shared = command_of(found, file.path), replace(shared, approve=found.digest)
        COURSES[type(command)](command=command, shared=shared, where=where).after_done()
        return
    else:
        require_not_abandoned(where, found)
    if found.step is OperationStage.PLANNED:
        typer.echo(f"{found.text}\n  this plan waits for approval")
        return
    if found.step is not OperationStage.REQUESTED:
        shared = replace(shared, approve=found.digest, by=found.by)
    command = command_of(found, file.path)
    COURSES[type(command)].run(command, shared, found)


@shares("home", "data")
def abandon(stream: Stream, at: Options, *, by: By = None) -> None:
    """Give up a restore, rescale, seed … that failed or was killed before its point of no return."""
    where = at.known_home_of(stream)
    given_up = _give_up(where, approver(by))
    typer.echo(given_up or f"no operation of stream {stream} is pending: there is nothing to abandon")


def _give_up(where: StreamHome, by: str) -> str | None:
    """Give up the command that is pending, else all that were approved and have not begun. None: there are none."""
    if (pending := pending_operation(where)) is not None:
        return _abandon(where, pending, by)
    if commands := unbegun_commands(where):
        return _abandon_unbegun(where, commands, by)
    if read_desired(where).state is DesiredState.MAINTENANCE:
        return _end_maintenance(where, by)
    return None


def _abandon(where: StreamHome, pending: OperationRecord, by: str) -> str:
    """Abandon the operation. Raises LeaseHeld while a process runs it, OperationPastReturn if it can only continue."""
    require_abandonable(where, pending)
    lease = acquire(where, f"abandon-{pending.id}", say=say)
    try:
        found = pending_operation(where)
        if found is None or found.id != pending.id:
            return f"the {pending.verb} of stream {where.name} is over: there is nothing to abandon"
        require_abandonable(where, found)
        Operation(where, found, lease.check).abandon(by=by)
        remove_abandoned(where)
        remove_tree(where.seeds / found.id)
    finally:
        end_job(lease)
    return _describe_abandoned(where, found, by)


def _abandon_unbegun(where: StreamHome, commands: Sequence[OperationRecord], by: str) -> str | None:
    """Abandon ``commands``, the newest first, before their first step. Raises LeaseHeld while one has the stream.

    It takes no lease, because the driver whose end they wait for may have it. The maintenance ends last, because a
    command that has begun meanwhile needs it, and so does one that was approved meanwhile.
    """
    _require_no_command(where)
    if not all(abandon_unbegun(where, each, by) for each in commands):
        return _give_up(where, by)  # one has begun meanwhile
    if not unbegun_commands(where):
        give_back(where, commands[0], lambda: None, by=by)
    return "\n".join(dict.fromkeys(_describe_abandoned(where, each, by) for each in commands))


def _end_maintenance(where: StreamHome, by: str) -> str:
    """End a maintenance that no command needs: of an earlier release, or of a killed ``abandon``.

    Raises LeaseHeld while a command has the stream. A stream without a lineage becomes STOPPED, as in ``give_back``.
    """
    _require_no_command(where)
    has_run = Store(where.lineage_record).exists()
    afterwards = (read_desired(where).afterwards or DesiredState.RUNNING) if has_run else DesiredState.STOPPED
    end_maintenance(where, afterwards, by=by, why="sessionizer abandon")
    return f"the maintenance of stream {where.name} is over: its desired state is {read_desired(where).state}"


def _require_no_command(where: StreamHome) -> None:
    lease = read_lease(where)
    if lease is None or lease.uid is None or not is_command(lease.uid):
        return
    if lease.may_be_at_work(EXIT_FILE.of(where, lease.uid).read()):
        raise LeaseHeld(where.name, lease.uid, lease.pid or 0, lease.host or "unknown")


def _describe_abandoned(where: StreamHome, record: OperationRecord, by: str) -> str:
    approved = f"approved by {record.by} at {moment_text(record.begun_at)}"
    state = read_desired(where).state
    return f"the {record.verb} of stream {where.name}, {approved}, is abandoned by {by}: its desired state is {state}"
