"""The files ``approved_commands/<id>.json``: commands that were approved, as they were before their first step.

An operation has no record before its first step, and may wait until then for a driver's end or for its next try. Its
file outlives a start or a stop of the stream, so that a user can give the command up all the same. Several commands may
wait at once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.operation_record import (
    OPERATION_FILE,
    Ending,
    OperationRecord,
    read_all,
    read_operations,
)
from sessionizer.errors import ControlUnreachable, DamagedFile, StreamMovedOn
from sessionizer.home.control_store import store_at
from sessionizer.home.json_file import have_folder
from sessionizer.home.record_file import ControlFile

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

APPROVED_COMMAND_FILE: Final = ControlFile("approved_commands/{}.json", OperationRecord, key="command")


def note_approved(home: StreamHome, record: OperationRecord) -> None:
    """Note the command before it asks for the stream. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    have_folder(APPROVED_COMMAND_FILE.folder(home), "the note of a command")
    APPROVED_COMMAND_FILE.of(home, record.id).write(record)


def forget_approved(home: StreamHome, over: OperationRecord) -> None:
    """Delete the notes of commands that no try begins any more, now that the command ``over`` has ended.

    These are its own and those of its earlier tries, and of commands that were approved for a lineage that it has left.
    Never raises, because its end matters more.
    """
    with suppress(OSError, ControlUnreachable, DamagedFile):
        for noted in read_all(home, APPROVED_COMMAND_FILE):
            is_left = over.lineage_to is not None and noted.lineage_from != over.lineage_to
            is_its_own = noted.command == over.command and noted.begun_at <= over.begun_at
            if is_left or is_its_own:
                store_at(APPROVED_COMMAND_FILE.of(home, noted.id).path).remove()


def unbegun_commands(home: StreamHome) -> list[OperationRecord]:
    """Return the approved commands that have done no step and are not over, the newest first.

    Raises DamagedFile, ControlUnreachable.
    """
    noted = read_all(home, APPROVED_COMMAND_FILE)
    begun = {each.id for each in read_operations(home)} if noted else set()
    return [each for each in reversed(noted) if each.id not in begun]


def abandon_unbegun(home: StreamHome, command: OperationRecord, by: str) -> bool:
    """Record that user ``by`` gave the unbegun ``command`` up. Return False if it has begun meanwhile.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    have_folder(OPERATION_FILE.folder(home), "the record of an operation")
    abandoned = replace(command, outcome=Ending.ABANDONED, abandoned_by=by)
    return OPERATION_FILE.of(home, command.id).create(abandoned)


def write_unless_abandoned(home: StreamHome, record: OperationRecord) -> None:
    """Write the record of a command at work, unless a user gave the command up before its first record.

    The first record is created, as ``abandon_unbegun`` creates its own. So exactly one of the two is the first. From
    then on only the owner of the lease writes it. Raises StreamMovedOn, UnwritablePath, DiskFull, ControlUnreachable,
    DamagedFile.
    """
    have_folder(OPERATION_FILE.folder(home), "the record of an operation")
    file = OPERATION_FILE.of(home, record.id)
    if file.require() is None and file.create(record):
        return
    require_not_abandoned(home, file.require())
    file.write(record)


def require_not_abandoned(home: StreamHome, found: OperationRecord | None) -> None:
    """Raise StreamMovedOn if the operation, read anew, was given up. None: it has no record so far."""
    if found is not None and found.outcome is Ending.ABANDONED:
        by = f" by {found.abandoned_by}" if found.abandoned_by else ""
        raise StreamMovedOn(home.name, found.digest, f"{found.verb} {found.id} was abandoned{by}")
