"""A command looks once more for the rows that should come back, before the stage from which it can only go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import OperationStage
from sessionizer.errors import RowsGone
from sessionizer.spark.state.commands import runner
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.state.commands.steps import DeleteLaterRows, PointOfNoReturn

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

NOT_NEEDED = cast("Any", None)


class Runner(SparkRunner[Any]):
    """Has a batch that should come back."""

    def look(self) -> Any:
        raise NotImplementedError

    def row_changes(self) -> tuple[list[Any], Any]:
        return [], SimpleNamespace(missing=["a batch"])


@pytest.mark.parametrize("begun", [False, True])
def test_rows_that_are_gone_end_it_while_it_can_be_abandoned(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    operation = Operation(home, new_operation(home, "restore", "0123456789abcdef", "ann", ("a", 7)), lambda: None)
    operation.reached(OperationStage.SEEDED if begun else OperationStage.STOPPED)
    changed: list[str] = []

    def gone(*_: object) -> None:
        raise RowsGone("clicks", "/lake/sessions", 3, "vacuumed")

    monkeypatch.setattr(runner, "count_changes", gone)
    monkeypatch.setattr(runner, "change_rows", lambda *_: changed.append("rows"))
    found = Runner(spark=NOT_NEEDED, home=home, command=NOT_NEEDED)
    assert PointOfNoReturn().is_done(operation.record) == begun
    if begun:  # a run before has brought some of them back, and goes to its end
        found.run(DeleteLaterRows(), operation)
        assert changed == ["rows"]
        return
    with pytest.raises(RowsGone):
        found.run(PointOfNoReturn(), operation)
    assert changed == []
    assert not operation.record.is_past_return


def test_an_unknown_step_is_no_step_of_it(home: StreamHome) -> None:
    with pytest.raises(NotImplementedError):
        Runner(spark=NOT_NEEDED, home=home, command=NOT_NEEDED).run(cast("Any", "step"), NOT_NEEDED)
