"""Lines of ``status`` about operations that are over."""

from dataclasses import replace

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, OperationRecord
from sessionizer.fleet.operation_words import TOLD_FOR_MS, describe_automatic_rollback
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import BY_CANARY


@pytest.fixture
def rollback(home: StreamHome) -> OperationRecord:
    """An automatic rollback from one lineage to another."""
    record = new_operation(home, "rollback", "d", f"{BY_CANARY}new", ("new", 3))
    return replace(record, outcome=Ending.DONE, lineage_to="old")


def test_an_automatic_rollback_is_told_for_a_day(rollback: OperationRecord) -> None:
    line = describe_automatic_rollback([rollback], "no batch", rollback.step_at + TOLD_FOR_MS)
    assert line is not None
    assert all(part in line for part in ("lineage new", "no batch", "lineage old"))
    assert describe_automatic_rollback([rollback], "no batch", rollback.step_at + TOLD_FOR_MS + 1) is None


def test_other_operations_are_not(rollback: OperationRecord) -> None:
    now = rollback.step_at
    assert describe_automatic_rollback([], None, now) is None
    for other in (replace(rollback, by="alice"), replace(rollback, outcome=Ending.ABANDONED)):
        assert describe_automatic_rollback([other], "why", now) is None
    assert describe_automatic_rollback([rollback, replace(rollback, by="alice")], "why", now) is None
