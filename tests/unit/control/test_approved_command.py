"""Approved commands before their first step, which outlive a start or a stop of their stream."""

from dataclasses import replace

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import (
    REQUEST_FILE,
    OperationRecord,
    OperationStage,
    abandon_unbegun,
    forget_approved,
    read_operations,
    unbegun_commands,
)
from sessionizer.errors import DamagedFile
from sessionizer.home.clock import MINUTE
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from support.places import opened
from support.verbs.begun_restore import leave_waiting, write_operation


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
