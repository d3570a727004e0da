"""The plan of a rollback: what people read of it."""

from __future__ import annotations

from dataclasses import replace

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


def test_what_people_read() -> None:
    assert list(PLAN.lines()) == [
        "stream clicks goes back to the lineage that it had before the restore",
        "  from  lineage l2, batch 9; its checkpoint is kept",
        "  to    lineage l1, after batch 4: its own state, spec and source",
        "  sessions: 3 rows are deleted, of 2026-11-23 (3)",
        "  source files: 4 are read already, 5 are read again",
    ]


def test_what_was_left_out_and_comes_back_is_told_and_is_not_what_is_decided() -> None:
    plan = replace(PLAN, remarks=("a.json (1 file) is read again",))
    assert "        a.json (1 file) is read again" in plan.lines()
    assert plan.digest == PLAN.digest
