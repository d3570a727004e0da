"""The steps of every command, by its own plan, for tests that run them on paper."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from sessionizer.deployment.differences import Difference
from sessionizer.deployment.upgrade_plan import UpgradePlan
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.state.commands.moves import LossPlan, Rescale, Switch
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.seeds import BEGINNING, HistoryPlace, Seed, SeedDecision
from sessionizer.state.commands.upgrades import Apply, Upgrade
from sessionizer.stream_spec.effect import Verdict

if TYPE_CHECKING:
    from sessionizer.control.execution import Step

DIGEST = "0123456789abcdef"


def decided(**more: object) -> Any:
    """Whatever a plan of the command needs to know."""
    replay = SimpleNamespace(missing=())
    usual = {"lineage": "old", "batch_id": 7, "stream": "clicks", "leaves": "old", "newest_batch": 7, "replay": replay}
    return SimpleNamespace(**{**usual, "digest": DIGEST, "refusal": None, "changes_something": True, **more})


def restore_decision(*, excludes: bool) -> Any:
    chosen = decided(excluded_ranges=("a range",) if excludes else (), canary=CanaryTerms())
    return decided(decision=chosen)


def upgrade_decision(verdict: Verdict) -> UpgradePlan:
    found = (Difference("a field", "a change", 1, 2, verdict, "a reason"),)
    return UpgradePlan("clicks", "old", 7, "spec", found, migrations=("rename",))


def stateless_plan() -> Any:
    command = Upgrade(stateless=True)
    return command.plan(replace(upgrade_decision(Verdict.IN_PLACE), request=command.request))


def seed_decision(leaves: str | None) -> SeedDecision:
    return SeedDecision("clicks", "spec", HistoryPlace("files", "/old"), None, BEGINNING, True, leaves)


@cache
def plans() -> dict[str, tuple[str, tuple[Step, ...], tuple[Step, ...]]]:
    """Steps of each case: the command, the steps that it runs stopped, and those after the decisive change."""
    standing = cast("Any", SimpleNamespace(lineage="old", batch_id=7, spec={"key_groups": 4}, settings=Partitions()))
    seed, over = Seed(history="/old", backfill=True), Seed(history="/old", start_over=True)
    loss = LossPlan("clicks", "old", 7, "spec", ("a file",), "its end")
    found: dict[str, tuple[Any, Any]] = {
        "restore": (Restore(), Restore().plan(restore_decision(excludes=False))),
        "restore with ranges": (Restore(), Restore().plan(restore_decision(excludes=True))),
        "rollback": (Rollback(), Rollback().plan(decided())),
        "rescale": (Rescale(), Rescale(key_groups=8).plan("clicks", standing, 4)),
        "switch": (Switch(), Switch(accept_loss=True).plan(loss)),
        "apply in place": (Apply(), Apply().plan(upgrade_decision(Verdict.IN_PLACE))),
        "apply anew": (Apply(), Apply().plan(upgrade_decision(Verdict.MIGRATE))),
        "upgrade in place": (Upgrade(), Upgrade().plan(upgrade_decision(Verdict.IN_PLACE))),
        "upgrade": (Upgrade(), Upgrade().plan(upgrade_decision(Verdict.MIGRATE))),
        "upgrade stateless": (Upgrade(stateless=True), stateless_plan()),
        "upgrade proved": (Upgrade(prove=True), Upgrade(prove=True).plan(upgrade_decision(Verdict.MIGRATE))),
        "seed": (seed, seed.plan(seed_decision(None))),
        "seed anew": (over, over.plan(seed_decision("old"))),
    }
    return {
        case: (command.name, tuple(step for step in plan.steps if not step.precedes_stop), command.last_steps)
        for case, (command, plan) in found.items()
    }


class Partitions(dict[str, str]):
    """Partitions of a checkpoint: two, by whatever name."""

    def __missing__(self, _: str) -> str:
        return "2"
