"""What a new lineage must show is approved with the plan: other terms are another plan."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sessionizer.deployment.upgrade_plan import APPLY, UpgradePlan, UpgradeRequest
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.state.commands import seeds as seed_plan
from sessionizer.state.commands.moves import Division, Edge, RescalePlan, Start, SwitchPlan, UnreadPart
from sessionizer.state.commands.seeds import BEGINNING, HistoryPlace
from support.verbs.scripted_runner import restore_plan

MAKE: dict[str, Callable[[CanaryTerms | None], str]] = {
    "rescale": lambda canary: RescalePlan("clicks", "old", 7, Division(4, 2), Division(8, 2), canary).digest,
    "switch": lambda canary: (
        SwitchPlan(
            "clicks", "old", 7, "ab", Start(edge=Edge.EARLIEST), (), "begins", UnreadPart("files", 0), canary=canary
        ).digest
    ),
    "apply": lambda canary: (
        UpgradePlan("clicks", "old", 7, "ab", (), UpgradeRequest(APPLY, anew=True, canary=canary)).digest
    ),
    "restore": lambda canary: restore_plan(canary=canary).digest,
    "start over": lambda canary: (
        seed_plan.SeedPlan("clicks", "ab", HistoryPlace("delta", "/lake"), None, BEGINNING, True, "old", canary).digest
    ),
}


@pytest.mark.parametrize("verb", MAKE)
def test_other_terms_are_another_plan(verb: str) -> None:
    usual, make = CanaryTerms(), MAKE[verb]
    others = [None, replace(usual, batches=3), replace(usual, goes_back=True)]
    assert len({make(usual), *map(make, others)}) == 1 + len(others)
    assert make(usual) == make(replace(usual, judges_sessions=False)), "what the verb itself says of its canary"


def test_where_nothing_new_is_made_there_is_nothing_to_try() -> None:
    plan = UpgradePlan("clicks", "old", 7, "ab", (), UpgradeRequest(APPLY))
    assert plan.digest == replace(plan, request=UpgradeRequest(APPLY, canary=None)).digest
    begins = seed_plan.SeedPlan("clicks", "ab", HistoryPlace("delta", "/lake"), None, BEGINNING, True, None)
    assert begins.digest == replace(begins, canary=None).digest
