"""The plan of a rollback: what people read of it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sessionizer.checkpoint.log_entries import commit_log
from sessionizer.errors import NoWayBack
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.state.commands.restores import RollbackPlan
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, way_back
from sessionizer.state.restores.ranges import Replay
from sessionizer.state.restores.row_changes import RowsOfTable
from support.places import opened

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


def test_what_people_read(golden: Callable[[str, str], None]) -> None:
    golden("plans/rollback.txt", "".join(f"{line}\n" for line in PLAN.lines()))


def test_what_was_left_out_and_comes_back_is_told_and_is_not_what_is_decided() -> None:
    plan = replace(PLAN, remarks=("a.json (1 file) is read again",))
    assert "        a.json (1 file) is read again" in plan.lines()
    assert plan.digest == PLAN.digest


def test_no_rollback_leads_to_the_lineage_that_a_seed_left(home: StreamHome) -> None:
    home.prepare()
    before, after = start_lineage(home), make_lineage(home, None)
    commits = commit_log(home.checkpoint(before))
    opened(commits).mkdir()
    opened(commits / "7").write_text('v2\n{"nextBatchWatermarkMs":0}')
    ORIGIN_FILE.of(home, after).write(Origin("seed", 1, before))
    activate_lineage(home, after, before)
    with pytest.raises(NoWayBack) as refused:
        way_back(home, after)
    assert "batch" not in refused.value.cause, "the seed began from no batch"
