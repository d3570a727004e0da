"""The file ``approved_command.json``: the newest command that was approved, as it was before its first step.

An operation has no record before its first step, and may wait until then for a driver's end or for its next try. This
file outlives a start or a stop of the stream, so that a user can give the command up all the same.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.operation_record import OPERATION_FILE, Ending, OperationRecord, read_operations
from sessionizer.home.control_store import store_at
from sessionizer.home.json_file import have_folder
from sessionizer.home.record_file import ControlFile

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

APPROVED_COMMAND_FILE: Final = ControlFile("approved_command.json", OperationRecord)


def note_approved(home: StreamHome, record: OperationRecord) -> None:
    """Note the command before it asks for the stream. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    APPROVED_COMMAND_FILE.of(home).write(record)


def forget_approved(home: StreamHome, record: OperationRecord) -> None:
    """Delete the note of a command that no try begins any more. Never raises, because its error matters more."""
    file = APPROVED_COMMAND_FILE.of(home)
    noted = file.read()
    if noted is not None and noted.id == record.id:
        with suppress(OSError):
            store_at(file.path).remove()


def unbegun_command(home: StreamHome) -> OperationRecord | None:
    """Return the newest approved command if it has done no step and is not over.

    Raises DamagedFile, ControlUnreachable.
    """
    noted = APPROVED_COMMAND_FILE.of(home).require()
    if noted is None or any(each.id == noted.id for each in read_operations(home)):
        return None
    return noted


def abandon_unbegun(home: StreamHome, command: OperationRecord, by: str) -> bool:
    """Record that user ``by`` gave the unbegun ``command`` up. Return False if it has begun meanwhile.

    Raises UnwritablePath, DiskFull, ControlUnreachable.
    """
    have_folder(OPERATION_FILE.folder(home), "the record of an operation")
    abandoned = replace(command, outcome=Ending.ABANDONED, abandoned_by=by)
    return OPERATION_FILE.of(home, command.id).create(abandoned)
