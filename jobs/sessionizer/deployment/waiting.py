"""Differences of a stream that wait for an upgrade, and the decision about them in its maintenance window."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from sessionizer.control.records.supervision_records import APPROVED_UPGRADE, ListApproval
from sessionizer.counts import count_text
from sessionizer.deployment.differences import Difference, count_verdicts, decided_differences
from sessionizer.deployment.upgrade_plan import UpgradeRequest, find_differences, plan_upgrade
from sessionizer.errors import InvalidSpec, MigrationRefused, SessionizerError
from sessionizer.home.clock import moment_text
from sessionizer.home.json_record import typed_digest
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.fingerprint import PROGRAMS
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.document.upgrades import UpgradePolicy, Upgrades
from sessionizer.stream_spec.effect import Verdict

NOT_AWAITED: Final = frozenset(name for name, each in PROGRAMS.items() if not each.is_chosen)
"""Programs that no stream is stopped for. They also differ between the machine of Airflow and that of a driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingUpgrade:
    """Differences of ``stream`` that have an effect, the gravest first. ``digest``: of exactly these.

    ``problem``: the reason why there is no plan, such as a migration that was edited. ``approval``: that of a list, if
    it is for exactly these differences.
    """

    stream: str
    digest: str
    differences: tuple[Difference, ...] = ()
    problem: str | None = None
    approval: ListApproval | None = None

    @property
    def needs_user(self) -> bool:
        """Whether a user must act first: accept a difference by name, or settle one that is incompatible."""
        settled = {Verdict.IN_PLACE, Verdict.MIGRATE}
        return self.problem is not None or any(each.verdict not in settled for each in self.differences)

    @property
    def counts(self) -> str:
        """The differences by verdict, or the problem."""
        if self.problem is not None:
            return f"no plan can be made ({self.problem})"
        return count_verdicts(self.differences)

    @property
    def counted(self) -> str:
        """The same, for a sentence."""
        return f"an upgrade waits: {self.counts}"

    def to_json(self) -> dict[str, Any]:
        """Return the differences for programs."""
        return {
            "digest": self.digest,
            "needs_user": self.needs_user,
            "differences": [each.to_json() for each in self.differences],
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The time in which an upgrade may begin: a maintenance window, or after an approval of a list. ``why``: which.

    ``until``: its end (epoch ms). ``approver``: the policy or the user that approves the plan. None if a user is asked.
    """

    until: int
    why: str
    approver: str | None
    of_list: bool = False


def open_by_list(now_ms: int, approval: ListApproval | None) -> Opening | None:
    """Return the opening at ``now_ms`` by the approval of a list. None if there is none, or it is over."""
    if approval is None or now_ms >= approval.until:
        return None
    by = f"{approval.by}, in a list"
    return Opening(until=approval.until, why=f"approved by {by}", approver=by, of_list=True)


def open_by_window(now_ms: int, upgrades: Upgrades) -> Opening | None:
    """Return the opening at ``now_ms`` by the spec's window. None if it is closed, or its policy begins nothing."""
    until = upgrades.open_until(now_ms)
    if until is None or not upgrades.begins_something:
        return None
    why = f"maintenance window {upgrades.window}, policy {upgrades.policy}"
    approver = f"policy apply, window {upgrades.window}" if upgrades.policy is UpgradePolicy.APPLY else None
    return Opening(until=until, why=why, approver=approver)


def decide_upgrade(now_ms: int, upgrades: Upgrades, waiting: WaitingUpgrade) -> Opening | None:
    """Return the opening in which a run begins at ``now_ms``. None if none begins.

    Nothing begins with differences that a user must accept or settle first. The approval of the run asks again.
    """
    if waiting.needs_user:
        return None
    return open_by_list(now_ms, waiting.approval) or open_by_window(now_ms, upgrades)


def find_waiting(home: StreamHome, spec: StreamSpec) -> WaitingUpgrade | None:
    """Compare the stream with its file's ``spec`` and the programs here. None if nothing waits, or it never ran.

    Needs no Spark and changes nothing. Never raises: what is damaged is reported elsewhere.
    """
    try:
        lineage = active_lineage(home)
        # most of the time nothing waits, and what each batch changes need not be read
        if lineage is None or not _awaited(find_differences(home, lineage, spec)):
            return None
        awaited = _awaited(plan_upgrade(home, (lineage, 0), spec, UpgradeRequest()).differences)
        approval = APPROVED_UPGRADE.of(home).read()
    except (MigrationRefused, InvalidSpec) as error:
        problem = str(error)
        return WaitingUpgrade(stream=home.name, digest=typed_digest({"problem": problem}), problem=problem)
    except SessionizerError:  # the damages of a stream name its lost records
        return None
    # Without the lineage, so that no window begins again what a restore or a rollback has just undone.
    digest = typed_digest({"differences": decided_differences(awaited)})
    holds = approval is not None and approval.digest == digest
    return WaitingUpgrade(stream=home.name, digest=digest, differences=awaited, approval=approval if holds else None)


def _awaited(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    return tuple(each for each in differences if each.verdict is not Verdict.NONE and each.name not in NOT_AWAITED)


def what_follows(waiting: WaitingUpgrade, upgrades: Upgrades, now_ms: int) -> str:
    """Say when the upgrade is carried out, or what a user does to have it."""
    by_hand = f"`sessionizer upgrade {waiting.stream}` shows the plan"
    if (listed := open_by_list(now_ms, waiting.approval)) is not None:
        return f"it is carried out until {moment_text(listed.until)} ({listed.why}), or now: {by_hand}"
    hours = upgrades.hours
    if waiting.needs_user or hours is None or not upgrades.begins_something:
        return by_hand
    until = hours.open_until(now_ms)
    when = f"until {moment_text(until)}" if until is not None else f"from {moment_text(hours.next_start(now_ms))} on"
    does = "it is put before a user" if upgrades.policy is UpgradePolicy.APPROVE else "it is carried out"
    return f"{does} {when} (window {upgrades.window}), or now: {by_hand}"


AT_ONCE: Final = "SESSIONIZER_UPGRADES_AT_ONCE"
STOP_AFTER: Final = "SESSIONIZER_UPGRADES_STOP_AFTER"


class UpgradeState(StrEnum):
    """The state of a stream's upgrade in its open window."""

    WAITS = "waits"
    RUNS = "runs"
    """It has begun, and the stream has not proven itself yet."""
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A ``stream`` whose window is open. ``asks``: a user approves its plan, so users set the pace."""

    stream: str
    wave: int
    state: UpgradeState
    asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The pace of a platform: at most so many upgrades ``at_once``, and none after so many failures."""

    at_once: int = 1
    stop_after: int = 1

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the variables ``SESSIONIZER_UPGRADES_…``. Raises InvalidSpec."""
        return cls(at_once=_read_number(environment, AT_ONCE), stop_after=_read_number(environment, STOP_AFTER))


@dataclass(frozen=True, slots=True)
class NextUpgrades:
    """The streams whose upgrades ``begin`` now, by name. ``held``: why none begins although some wait."""

    begin: tuple[str, ...] = ()
    held: str | None = None


def choose_next(members: Sequence[Member], pace: Pace) -> NextUpgrades:
    """Choose the upgrades that begin now: of the lowest wave that is not over, by the streams' names.

    Upgrades that ask a user do not count among those at once, because each of them waits for its answer.
    """
    waiting = [each for each in members if each.state is UpgradeState.WAITS]
    failed = sorted(each.stream for each in members if each.state is UpgradeState.FAILED)
    if waiting and len(failed) >= pace.stop_after:
        left = count_text(len(waiting), "upgrade")
        remedy = "Mend it and clear its run, or wait for the next window"
        return NextUpgrades(held=f"{left} held back, because {', '.join(failed)} failed in this window. {remedy}")
    running = [each for each in members if each.state is UpgradeState.RUNS]
    wave = min((each.wave for each in (*waiting, *running)), default=0)
    due = sorted((each for each in waiting if each.wave == wave), key=lambda each: each.stream)
    free = max(0, pace.at_once - sum(not each.asks for each in running))
    begin = [each.stream for each in due if each.asks] + [each.stream for each in due if not each.asks][:free]
    if waiting and not begin:
        names = ", ".join(sorted(each.stream for each in running))
        return NextUpgrades(held=f"{count_text(len(waiting), 'upgrade')} held back until {names} is done")
    return NextUpgrades(tuple(begin))


def _read_number(environment: Mapping[str, str], name: str) -> int:
    given = environment.get(name, "1")
    if not given.isdecimal() or int(given) == 0:
        raise InvalidSpec(name, given, "a whole number from 1 on")
    return int(given)
