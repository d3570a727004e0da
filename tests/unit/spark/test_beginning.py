"""A seed that fails before it has changed anything leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import Ending, Reached, read_operations
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.history.beginning import Beginning
from sessionizer.state.seeds.seed_plan import VERB

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("reached", "left"), [(Reached.TAKEN, False), (Reached.SEEDED, True)])
def test_what_a_history_came_to_goes_with_a_seed_that_is_abandoned(
    tmp_path: Path, reached: Reached, left: bool
) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    operation = Operation(home, new_operation(home, VERB, "0123456789abcdef", "ann", ("", -1)), lambda: None)
    (home.seeds / operation.record.id).mkdir(parents=True)
    operation.reached(reached)
    nothing_to_take = cast("Any", None)
    with pytest.raises(AttributeError):
        Beginning(nothing_to_take, cast("Any", None), operation, lambda _: None).run()
    assert home.seeds.exists() == left
    assert [record.outcome for record in read_operations(home)] == [None if left else Ending.ABANDONED]
