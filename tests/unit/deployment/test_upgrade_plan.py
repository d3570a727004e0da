"""The plan of an upgrade: where it goes on, what must be accepted, and what its digest stands for."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sessionizer.deployment.differences import Difference
from sessionizer.deployment.upgrade_plan import APPLY, UpgradePlan, UpgradeRequest
from sessionizer.errors import InvalidSpec, NotAccepted
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.fingerprint import SPARK
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.effect import Verdict
from support.fixtures.reviewed import Reviewed

FIRST = ("Stop", "WriteSavepoint", "PrepareTables")
IN_PLACE = ("Stop", "CopyCheckpoint", "PrepareTables", "WriteSpec", "NotePrograms")
WITHOUT_CANARY = (*FIRST, "StartLineage", "Compare", "SetPosition", "Activate")
IN_A_NEW_LINEAGE = (*WITHOUT_CANARY[:-1], "Canary", "Activate")
HARMLESS = Difference("owner", "no effect", "web", "app", Verdict.NONE)
GAP = Difference("rules.gap_timeout", "gap tightened", "9 seconds", "5 seconds", Verdict.IN_PLACE, "events keep theirs")
GROUPS = Difference("key_groups", "key groups changed", 4, 8, Verdict.MIGRATE, "divided anew")
KEY = Difference("mapping.key", "key changed", "user_id", "device", Verdict.PARTIAL, "up to 12 open sessions")
LINE = Difference(SPARK, "Spark line changed", "4.2.0", "4.3.0", Verdict.UNKNOWN, "never tested")
OTHER_MODE = Difference(
    "rules.time_mode", "time mode changed", "none", "event_time", Verdict.INCOMPATIBLE, "why", "how"
)


def plan(*differences: Difference, accepted: tuple[str, ...] = (), anew: bool = False) -> UpgradePlan:
    request = UpgradeRequest(accepted=accepted, anew=anew)
    return UpgradePlan("clicks", "20261123T143621-abe542", 7, "f1", differences, request)


@pytest.mark.parametrize(
    ("found", "possible", "steps"),
    [
        (plan(), False, ()),
        (plan(HARMLESS), False, ()),
        (plan(HARMLESS, GAP), True, IN_PLACE),
        (plan(GAP), True, IN_PLACE),
        (plan(GAP, anew=True), True, IN_A_NEW_LINEAGE),
        (replace(plan(GROUPS), request=UpgradeRequest(canary=None)), True, WITHOUT_CANARY),
        (plan(GAP, GROUPS), True, IN_A_NEW_LINEAGE),
        (plan(KEY), False, ()),
        (plan(KEY, accepted=("mapping.key",)), True, IN_PLACE),
        (plan(KEY, accepted=("mapping.client",)), False, ()),
        (plan(LINE, accepted=(SPARK,)), True, IN_A_NEW_LINEAGE),
        (plan(OTHER_MODE, accepted=("rules.time_mode",)), False, ()),
    ],
)
def test_the_verdicts_decide_what_is_done(found: UpgradePlan, possible: bool, steps: tuple[str, ...]) -> None:
    planned = Upgrade(canary=5 if found.request.canary else 0).plan(found)
    assert (planned.is_possible, tuple(planned.decision.steps)) == (possible, steps)
    shown = "\n".join(planned.decision.lines())
    assert all(f"{number}. {says}" in shown for number, says in enumerate(planned.decision.steps.values(), start=1))
    assert not any(step in shown for step in steps if step in {"CopyCheckpoint", "StartLineage"}), "no name of a class"
    assert found.to_json()["possible"] is possible


def test_what_is_shown_is_what_runs() -> None:
    for found in (plan(GAP), plan(GROUPS), replace(plan(GROUPS), migrations=("rename",))):
        planned = Upgrade().plan(found)
        assert tuple(planned.decision.steps) == tuple(type(step).__name__ for step in planned.steps)


def test_a_migration_writes_finished_sessions() -> None:
    found = Upgrade().plan(replace(plan(GROUPS), migrations=("rename",))).decision
    assert not [line for line in found.lines() if "no session is closed" in line]
    assert [line for line in found.lines() if "`sessionizer migration check clicks --deep`" in line]
    assert tuple(found.steps) == (*IN_A_NEW_LINEAGE, "WriteFinishedSessions")


def test_what_is_not_accepted_is_named() -> None:
    raised = plan(KEY, LINE, accepted=("mapping.key",)).refusal
    assert isinstance(raised, NotAccepted)
    assert raised.names == (SPARK,)
    assert any("--accept mapping.key --accept spark" in line for line in plan(KEY, LINE).lines())


def test_what_is_incompatible_is_refused_whatever_is_accepted() -> None:
    raised = plan(KEY, OTHER_MODE).refusal
    assert isinstance(raised, InvalidSpec)
    assert raised.field == "rules.time_mode"


DECISIONS: Mapping[str, UpgradePlan] = {
    "as it is": plan(GAP),
    "another value": plan(replace(GAP, now="6 seconds")),
    "accepted": plan(GAP, accepted=("mapping.key",)),
    "anew": plan(GAP, anew=True),
    "another canary": replace(plan(GAP), request=UpgradeRequest(anew=True, canary=CanaryTerms(batches=2))),
    "another lineage": replace(plan(GAP), lineage="20261123T143621-000000"),
    "another spec": replace(plan(GAP), fingerprint="f2"),
    "another verb": replace(plan(GAP), request=UpgradeRequest(APPLY)),
}


def test_the_digest_is_of_what_is_decided() -> None:
    assert len({found.digest for found in DECISIONS.values()}) == len(DECISIONS)
    later = replace(plan(KEY), batch_id=99, differences=(replace(KEY, reason="up to 13 open sessions"),))
    assert later.digest == plan(KEY).digest


def test_what_a_rollback_can_do_is_said(reviewed: Reviewed) -> None:
    reviewed(plan(GROUPS).rollback)
    assert "no rollback" in plan(GAP).rollback


def test_a_sentence_about_several_differences_is_said_once_after_them() -> None:
    """Another source differs in up to three fields, each with the same cause and the same way out."""
    of_source = [
        Difference(name, "source re-pointed", "a", "b", Verdict.INCOMPATIBLE, "elsewhere", "switch")
        for name in ("source.format", "source.path")
    ]
    lines = [line.strip() for line in plan(of_source[0], GAP, of_source[1]).lines()]
    assert (lines.count("elsewhere"), lines.count("switch")) == (1, 1)
    assert lines[1:3] == [each.line for each in of_source]
    assert GAP.reason in lines
