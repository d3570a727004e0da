"""A restore looks once more for the rows that should come back, before the stage from which it can only go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import Reached
from sessionizer.errors import RowsGone
from sessionizer.spark.state.restores import restoring
from sessionizer.spark.state.restores.restoring import Restoring
from sessionizer.state.lineages.handover import Step

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

NOT_NEEDED = cast("Any", None)


@pytest.mark.parametrize("begun", [False, True])
def test_rows_that_are_gone_end_it_while_it_can_be_abandoned(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    operation = Operation(home, new_operation(home, "restore", "0123456789abcdef", "ann", ("a", 7)), lambda: None)
    operation.reached(Reached.SEEDED if begun else Reached.STOPPED)
    changed: list[str] = []

    def gone(*_: object) -> None:
        raise RowsGone("clicks", "/lake/sessions", 3, "vacuumed")

    monkeypatch.setattr(restoring, "changes_of", lambda *_: SimpleNamespace(missing=["a batch"]))
    monkeypatch.setattr(restoring, "tables_of", lambda *_: [])
    monkeypatch.setattr(restoring, "count_changes", gone)
    monkeypatch.setattr(restoring, "change_rows", lambda *_: changed.append("rows"))
    lease = cast("Any", SimpleNamespace(check=lambda: None))
    restore = Restoring(NOT_NEEDED, home, NOT_NEEDED, NOT_NEEDED, lease, operation, lambda _: None)
    if begun:  # a run before has brought some of them back, and goes to its end
        restore._finish_step(Step.FURNISHED)
        assert changed == ["rows"]
        return
    with pytest.raises(RowsGone):
        restore._finish_step(Step.FURNISHED)
    assert changed == []
    assert operation.record.step is Reached.STOPPED
    assert not operation.record.is_past_return
