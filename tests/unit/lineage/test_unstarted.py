"""A lineage or a spec that no batch was made by since a command: found from the records, and failed once."""

from dataclasses import replace

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending
from sessionizer.control.records.supervision_records import HEALTH_FILE, Health
from sessionizer.errors import NoWayBack
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.batch_log import BatchFacts, BatchLog
from sessionizer.lineage.canary.canary_record import (
    CANARY_FILE,
    UnstartedLineage,
    begin_canary,
    examine_unstarted,
    fail_unstarted,
    promote_lineage,
    read_canary,
)
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, undo_in_place, way_back
from support.verbs.begun_restore import write_operation

BATCH = BatchFacts(
    batch_id=1, read=9, admitted=9, late=0, quarantined=0, sessions=2, open_before=0, open_after=1, held_bytes=9
)


def make_new(home: StreamHome, *, goes_back: bool = True, canary: bool = True) -> tuple[str, str]:
    before = start_lineage(home)
    after = make_lineage(home, None)
    if canary:
        begin_canary(home, after, "upgrade", before, CanaryTerms(goes_back=goes_back))
    activate_lineage(home, after, before, before)
    return before, after


def test_a_stream_without_a_command_has_none(home: StreamHome) -> None:
    assert examine_unstarted(home) is None
    start_lineage(home)
    assert examine_unstarted(home) is None


@pytest.mark.parametrize(("canary", "goes_back"), [(True, True), (True, False), (False, False)])
def test_a_new_lineage_is_unstarted_until_its_first_batch(home: StreamHome, canary: bool, goes_back: bool) -> None:
    before, after = make_new(home, canary=canary, goes_back=goes_back)
    found = examine_unstarted(home)
    assert found == UnstartedLineage("clicks", after, before, rolls_back=goes_back, starts=3)
    assert all(part in found.way_back for part in ("`sessionizer rollback clicks`", before))
    BatchLog(home.lineage(after).batches).add(BATCH)
    assert examine_unstarted(home) is None


def test_a_lineage_is_failed_once_and_never_after_a_promotion(home: StreamHome) -> None:
    before, after = make_new(home)
    fail_unstarted(home, before, "not the active one")
    assert examine_unstarted(home) == UnstartedLineage("clicks", after, before, rolls_back=True)
    fail_unstarted(home, after, "no code")
    fail_unstarted(home, after, "again")
    canary = read_canary(home, after)
    assert canary is not None
    assert (canary.outcome, canary.course.reason, canary.goes_back) == (CanaryOutcome.FAILED, "no code", True)
    assert examine_unstarted(home) == UnstartedLineage("clicks", after, before)
    marks = [file for file in home.history.iterdir() if "canary" in file.read_text()]
    assert len(marks) == 1


def test_a_promoted_lineage_is_kept(home: StreamHome) -> None:
    before, after = make_new(home)
    promote_lineage(home, "alice")
    fail_unstarted(home, after, "no code")
    canary = read_canary(home, after)
    assert canary is not None
    assert canary.outcome is CanaryOutcome.PROMOTED
    assert examine_unstarted(home) == UnstartedLineage("clicks", after, before)


def test_a_change_in_place_leads_back_to_the_savepoint_that_it_made(home: StreamHome) -> None:
    lineage = start_lineage(home)
    BatchLog(home.lineage(lineage).batches).add(BATCH)
    assert examine_unstarted(home) is None
    done = new_operation(home, "upgrade", "d", "alice", (lineage, 1))
    write_operation(home, replace(done, outcome=Ending.DONE, lineage_to=lineage))
    found = examine_unstarted(home)
    assert found == UnstartedLineage("clicks", lineage, savepoint=f"upgrade-{done.id}")
    assert f"`sessionizer restore clicks upgrade-{done.id}`" in found.way_back
    HEALTH_FILE.of(home).write(Health(worked_at=epoch_ms() + 1))
    assert examine_unstarted(home) is None
    with pytest.raises(NoWayBack, match=f"`sessionizer restore clicks upgrade-{done.id}`"):
        way_back(home, lineage)


def test_no_rollback_is_taken_for_the_way_back_of_a_change_in_place(home: StreamHome) -> None:
    """A rollback leads to the lineage before, which may be weeks old."""
    before, after = make_new(home)
    assert undo_in_place(home, after) == []
    done = new_operation(home, "apply", "d", "alice", (after, 1))
    write_operation(home, replace(done, outcome=Ending.DONE, lineage_to=after))
    (said,) = undo_in_place(home, after)
    assert f"`sessionizer restore clicks apply-{done.id}`" in said
    for origin in (Origin("seed", 7, before), Origin("rescale", 7, before, 41)):  # no rollback leads to either
        ORIGIN_FILE.of(home, after).write(origin)
        with pytest.raises(NoWayBack, match=f"`sessionizer restore clicks apply-{done.id}`"):
            way_back(home, after)


def test_a_damaged_record_is_no_reason_to_roll_back(home: StreamHome) -> None:
    _, after = make_new(home)
    CANARY_FILE.of(home, after).path.write_text("{")
    assert examine_unstarted(home) is None
