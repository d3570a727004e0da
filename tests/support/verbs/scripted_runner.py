"""A runner whose steps are run on paper: by a function, on a stream home without data."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

from sessionizer.control.execution import Step
from sessionizer.control.lease import read_lease, write_lease
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.control.records.process_records import Vacancy
from sessionizer.deployment.differences import Difference
from sessionizer.deployment.upgrade_plan import UpgradePlan
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.excluded_ranges import ExcludedRange, ExcludedRanges
from sessionizer.state.commands.erasures import Erase, ErasePlan
from sessionizer.state.commands.moves import LossPlan, Rescale, Switch
from sessionizer.state.commands.registry import find_changed_lineage
from sessionizer.state.commands.restores import Restore, RestorePlan, Rollback
from sessionizer.state.commands.seeds import BEGINNING, HistoryPlace, Seed, SeedPlan
from sessionizer.state.commands.upgrades import Apply, Upgrade
from sessionizer.state.restores.ranges import Replay
from sessionizer.stream_spec.effect import Verdict
from support.places import known


class Killed(BaseException):
    """What a process dies of that gets no chance to clean up: no `except Exception` sees it."""


@dataclass(frozen=True, kw_only=True)
class Do(Step):
    """Whatever the test does."""


@dataclass(frozen=True)
class ScriptedPlan:
    """Plan of a ``digest``, and of the fields that it covers."""

    digest: str
    steps: tuple[Step, ...]
    refusal: SessionizerError | None = None
    decided: Mapping[str, Any] = field(default_factory=dict)

    def require_possible(self) -> None:
        if self.refusal is not None:
            raise self.refusal


@dataclass(kw_only=True)
class ScriptedRunner:
    """``work`` runs a step, and returns the lineage that is active then. ``digest``: of the plan, None: as approved.

    ``activated``: what an earlier try made active. ``cleaned``: how often it had to clean up.
    """

    home: StreamHome
    work: Callable[[Step, Operation], str | None]
    steps: tuple[Step, ...] = (Do(),)
    last: tuple[Step, ...] = ()
    look: Callable[[], object] = lambda: None
    digest: str | None = None
    refusal: SessionizerError | None = None
    decided: Mapping[str, Any] = field(default_factory=dict)
    activated: Callable[[], str | None] | None = None
    cleaned: int = 0

    def prepared(self, record: OperationRecord) -> AbstractContextManager[None]:
        return nullcontext()

    def find_activated(self, record: OperationRecord) -> str | None:
        """As ``activated`` says, else as the stream's records do."""
        return self.activated() if self.activated else find_changed_lineage(self.home, record)

    def plan_again(self, record: OperationRecord) -> ScriptedPlan:
        self.look()
        return ScriptedPlan(self.digest or record.digest, self.steps, self.refusal, self.decided)

    def last_steps(self) -> tuple[Step, ...]:
        return self.last

    def run(self, step: Step, operation: Operation) -> str | None:
        return self.work(step, operation)

    def clean_up(self, operation: Operation) -> None:
        self.cleaned += 1


DIGEST = "0123456789abcdef"
EXCLUDED = ExcludedRanges((ExcludedRange("a range", files=("a.json",)),))


BY_FILE = Restore(with_file=True, key_groups=8, partitions=4)


def decided(**more: object) -> Any:
    replay = SimpleNamespace(missing=())
    usual = {"lineage": "old", "batch_id": 7, "stream": "clicks", "leaves": "old", "newest_batch": 7, "replay": replay}
    return SimpleNamespace(**{**usual, "digest": DIGEST, "refusal": None, "changes_something": True, **more})


def restore_plan(**more: Any) -> RestorePlan:
    found = RestorePlan(
        stream="clicks",
        savepoint="s1",
        manifest="ab" * 32,
        lineage="l0",
        batch_id=7,
        leaves="l1",
        spec="ee",
        batch_at=1,
        newest_batch=9,
        sessions=None,
        events=None,
        tables=(),
        replay=Replay("files"),
    )
    return replace(found, **more)


def upgrade_decision(verdict: Verdict) -> UpgradePlan:
    found = (Difference("a field", "a change", 1, 2, verdict, "a reason"),)
    return UpgradePlan("clicks", "old", 7, "spec", found, migrations=("rename",))


def stateless_plan() -> Any:
    command = Upgrade(stateless=True)
    return command.plan(replace(upgrade_decision(Verdict.IN_PLACE), request=command.request))


def seed_decision(leaves: str | None) -> SeedPlan:
    return SeedPlan("clicks", "spec", HistoryPlace("files", "/old"), None, BEGINNING, True, leaves)


@cache
def plans() -> dict[str, tuple[str, tuple[Step, ...], tuple[Step, ...]]]:
    """Steps of each case: the command, the steps that it runs stopped, and those after the decisive change."""
    standing = cast("Any", SimpleNamespace(lineage="old", batch_id=7, spec={"key_groups": 4}, settings=Partitions()))
    seed, over = Seed(history="/old", backfill=True), Seed(history="/old", start_over=True)
    people = Erase(keys="/people")
    loss = LossPlan("clicks", "old", 7, "spec", ("a file",), "its end")
    found: dict[str, tuple[Any, Any]] = {
        "restore": (Restore(), Restore().plan(restore_plan())),
        "restore with ranges": (Restore(), Restore().plan(restore_plan(excluded_ranges=EXCLUDED))),
        "restore by the file": (BY_FILE, BY_FILE.plan(restore_plan(by_file=True, migrations=("rename",)))),
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
        "erase": (people, people.plan(ErasePlan("clicks", "old", 7, 2, "0" * 64, "key", for_good=False))),
    }
    return {
        case: (command.name, tuple(step for step in plan.steps if not step.precedes_stop), command.last_steps)
        for case, (command, plan) in found.items()
    }


class Partitions(dict[str, str]):
    """Partitions of a checkpoint: two, by whatever name."""

    def __missing__(self, _: str) -> str:
        return "2"


def lose_lease(home: StreamHome) -> None:
    """It was another's, who has given it up by now: it is free again."""
    last = known(read_lease(home))
    taken = replace(last, token=last.token + 1, uid="elsewhere", vacancy=Vacancy.RELEASED, vacated_at=epoch_ms())
    assert write_lease(home, taken)
