"""The note of a command before its first step, which outlives a start or a stop of its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.approved_command import (
    APPROVED_COMMAND_FILE,
    abandon_unbegun,
    forget_approved,
    note_approved,
    unbegun_command,
)
from sessionizer.control.records.operation_record import Reached, read_operations, write_operation
from sessionizer.errors import DamagedFile
from support.places import mounted

if TYPE_CHECKING:
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome


def noted(home: StreamHome) -> OperationRecord:
    record = new_operation(home, "rescale", "0123456789abcdef", "ann", ("old", 7))
    note_approved(home, record)
    return record


def test_a_command_is_unbegun_until_its_first_step(home: StreamHome) -> None:
    assert unbegun_command(home) is None
    record = noted(home)
    assert unbegun_command(home) == record
    write_operation(home, record.record_step(Reached.STOPPED))
    assert unbegun_command(home) is None


def test_a_command_that_begins_while_a_user_gives_it_up_keeps_its_record(home: StreamHome) -> None:
    begun = noted(home).record_step(Reached.STOPPED)
    write_operation(home, begun)
    assert not abandon_unbegun(home, begun, "olga")
    assert read_operations(home) == [begun]


def test_only_the_command_itself_is_forgotten(home: StreamHome) -> None:
    other, record = noted(home), noted(home)
    forget_approved(home, other)
    assert unbegun_command(home) == record
    forget_approved(home, record)
    assert unbegun_command(home) is None


def test_damage_does_not_pass_for_no_command(home: StreamHome) -> None:
    noted(home)
    mounted(APPROVED_COMMAND_FILE.of(home).path).write_text("{")
    with pytest.raises(DamagedFile, match="approved_command"):
        unbegun_command(home)
