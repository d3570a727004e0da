"""A rescale that was begun goes on as it was approved, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.desired_state import DesiredState, read_desired, write_desired
from sessionizer.control.records.operation_record import Ending, read_operations, require_no_operation
from sessionizer.errors import PlanChanged
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.state.lineages.rescaling import rescaled
from sessionizer.state.lineages.rescale_plan import VERB, Division, RescalePlan

if TYPE_CHECKING:
    from pathlib import Path

NOT_NEEDED = cast("Any", None)


def test_typed_again_with_other_options_it_is_abandoned(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    write_desired(home, DesiredState.STOPPED, by="ann", why="at night")
    approved = RescalePlan("clicks", "old", 7, Division(16, 2), Division(32, 2))
    typed = RescalePlan("clicks", "old", 7, Division(16, 2), Division(8, 2))
    operation = Operation(home, new_operation(home, VERB, approved.digest, "ann", ("old", 7)), lambda: None)
    with pytest.raises(PlanChanged) as raised:
        rescaled(NOT_NEEDED, typed, NOT_NEEDED, operation, lambda _: None)
    assert (raised.value.approved, raised.value.now) == (approved.digest, typed.digest)
    require_no_operation(home)
    assert [record.outcome for record in read_operations(home)] == [Ending.ABANDONED]
    assert read_desired(home).state is DesiredState.STOPPED
