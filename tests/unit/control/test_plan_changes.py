"""An error about a changed plan names the fields that differ from the approved plan, if that one was kept."""

from dataclasses import replace
from typing import Any

import pytest

from sessionizer.control.execution import LISTED, Decided, DecidedFields, execute, list_differences, require_approved
from sessionizer.control.operation import Operation, new_operation
from sessionizer.control.records.operation_record import (
    OPERATION_FILE,
    REQUEST_FILE,
    OperationRecord,
    OperationStage,
    pending_operation,
    write_request,
)
from sessionizer.deployment.differences import Division
from sessionizer.errors import PlanChanged
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.state.commands.moves import Edge, RescalePlan, Start, SwitchPlan, UnreadPart
from sessionizer.stream_spec.effect import Verdict
from support.verbs.begun_restore import write_operation
from support.verbs.scripted_runner import ScriptedRunner, restore_plan, seed_decision, upgrade_decision

RESTORE = restore_plan()
RESCALE = RescalePlan("clicks", "l1", 7, Division(4, 2), Division(8, 2))
SWITCH = SwitchPlan("clicks", "l1", 7, "0123", Start(edge=Edge.LATEST), (), "there", UnreadPart("files", 0))
SEED, UPGRADE = seed_decision("l1"), upgrade_decision(Verdict.IN_PLACE)
BEFORE = DecidedFields({"stream": "clicks", "leaves": "l1", "lineage": "l0"})
NOW = DecidedFields({"stream": "clicks", "leaves": "l2", "lineage": "l1"})
CHANGED = ("lineage that is left: l1 → l2", "lineage: l0 → l1")


@pytest.mark.parametrize(
    ("approved", "now", "differences"),
    [
        (RESTORE, replace(RESTORE, leaves="l2", spec="ff"), ["lineage that is left: l1 → l2", "spec: ee → ff"]),
        (RESTORE, replace(RESTORE, canary=None), ["canary: the usual one → none"]),
        (RESCALE, replace(RESCALE, now=Division(8, 4), batch_id=9), ["now partitions: 2 → 4"]),
        (
            RESCALE,
            replace(RESCALE, canary=CanaryTerms(batches=3, goes_back=True)),
            ["canary: the usual one → 3 batches, with a rollback"],
        ),
        (
            SWITCH,
            replace(SWITCH, start=Start(at=0)),
            [
                "end at which the new source begins: latest → none",
                "moment at which the new source begins: none → 1970-01-01 00:00:00 UTC",
            ],
        ),
        (SEED, replace(SEED, until_ms=0), ["end of the history: none → 1970-01-01 00:00:00 UTC"]),
        (SEED, replace(SEED, backfill=False), ["backfill: yes → no"]),
        (
            UPGRADE,
            replace(UPGRADE, differences=(), migrations=()),
            ["differences: a field = 2 → none", "migrations: rename → none"],
        ),
    ],
)
def test_each_field_that_differs_is_named_with_both_values(
    approved: Decided, now: Decided, differences: list[str]
) -> None:
    assert approved.digest != now.digest
    assert list_differences(approved.decided, now.decided) == tuple(differences)
    assert list_differences(approved.decided, approved.decided) == ()


def test_only_the_first_differences_are_named() -> None:
    found = list_differences(*({str(name): value for name in range(LISTED + 3)} for value in ("a" * 500, "b")))
    assert len(found) == LISTED + 1
    assert found[-1] == "3 more"
    assert max(map(len, found)) < 80


@pytest.mark.parametrize("unknown", [(BEFORE.decided, {}), ({}, NOW.decided)])
def test_nothing_is_said_of_a_plan_that_is_not_known(unknown: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert list_differences(*unknown) == ()


def refused(home: StreamHome) -> PlanChanged:
    with pytest.raises(PlanChanged) as raised:
        require_approved(home, BEFORE.digest, NOW)
    assert (raised.value.approved, raised.value.now) == (BEFORE.digest, NOW.digest)
    return raised.value


def planned(decided: DecidedFields) -> OperationRecord:
    return OperationRecord(
        id="r1", verb="rollback", stream="clicks", digest=decided.digest, decided=decided.decided,
        step=OperationStage.PLANNED, begun_at=1, step_at=1,
    )  # fmt: skip


def test_the_approved_plan_is_found_among_those_that_were_kept(home: StreamHome) -> None:
    require_approved(home, NOW.digest, NOW)
    assert refused(home).differences == ()
    write_request(home, planned(BEFORE))
    error = refused(home)
    assert error.differences == CHANGED
    assert all(each in str(error) for each in CHANGED)


def test_the_approved_plan_is_found_in_the_record_of_its_operation(home: StreamHome) -> None:
    record = new_operation(home, "rollback", BEFORE.digest, "ann", ("l1", 7), decided=BEFORE.decided)
    write_operation(home, record)
    assert pending_operation(home) == record
    assert refused(home).differences == CHANGED


def test_records_of_an_earlier_release_and_damaged_ones_say_less(home: StreamHome) -> None:
    write_request(home, replace(planned(BEFORE), decided={}))
    write_operation(home, new_operation(home, "rollback", BEFORE.digest, "ann", ("l1", 7)))
    assert refused(home).differences == ()
    for file in (REQUEST_FILE.of(home, "r1"), OPERATION_FILE.of(home, "o")):
        file.path.write_text("{")
        assert refused(home).differences == ()


def test_a_plan_that_changes_between_the_approval_and_the_lease_is_compared(home: StreamHome) -> None:
    record = new_operation(home, "rollback", BEFORE.digest, "ann", ("l1", 7), decided=BEFORE.decided)
    runner = ScriptedRunner(home=home, work=lambda *_: None, digest=NOW.digest, decided=NOW.decided)
    with pytest.raises(PlanChanged) as raised:
        execute(Operation(home, record, lambda: None), runner)
    assert raised.value.differences == CHANGED
