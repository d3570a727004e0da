"""The record of a verb that changes a stream's state: how far it came, and that nothing else starts meanwhile."""

from dataclasses import replace

import pytest

from sessionizer.causes.table import remedy_for
from sessionizer.control.records.operation_record import (
    Ending,
    OperationStage,
    pending_operation,
    read_operations,
    require_no_operation,
)
from sessionizer.errors import DamagedFile, OperationPending
from sessionizer.home.stream_home import StreamHome
from support.verbs.begun_restore import begun_restore, write_operation

BEGUN = begun_restore(savepoint="20261122T080000-abc123")


def test_a_stream_that_nobody_ever_changed_has_none(home: StreamHome) -> None:
    assert read_operations(home) == []
    require_no_operation(home)


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
