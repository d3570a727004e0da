"""The plan of a rollback: what people read of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.state.restores.restore_plan import Replay
from sessionizer.state.restores.rollback_plan import RollbackPlan
from sessionizer.state.restores.row_changes import RowsOfTable

PLAN = RollbackPlan(
    stream="clicks",
    leaves="l2",
    verb="restore",
    newest_batch=9,
    lineage="l1",
    batch_id=4,
    tables=(RowsOfTable("sessions", "/t/sessions", {"2026-11-23": 3}),),
    replay=Replay("files: 4 are read already", 5),
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_what_people_read(golden: Callable[[str, str], None]) -> None:
    golden("plans/rollback.txt", "".join(f"{line}\n" for line in PLAN.lines()))


def test_what_was_left_out_and_comes_back_is_told_and_is_not_what_is_decided() -> None:
    plan = replace(PLAN, remarks=("a.json (1 file) is read again",))
    assert "        a.json (1 file) is read again" in plan.lines()
    assert plan.digest == PLAN.digest
