"""The plan of an upgrade, and a difference that waits: told once, begun in its window only, in the order of waves."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.control.records.supervision_records import ListApproval
from sessionizer.deployment.differences import Difference
from sessionizer.deployment.upgrade_plan import APPLY, UpgradePlan, UpgradeRequest
from sessionizer.deployment.waiting import (
    AT_ONCE,
    STOP_AFTER,
    Member,
    Opening,
    Pace,
    UpgradeState,
    WaitingUpgrade,
    choose_next,
    decide_upgrade,
    what_follows,
)
from sessionizer.errors import InvalidSpec, NotAccepted
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.fingerprint import SPARK
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.document.upgrades import UpgradePolicy, Upgrades
from sessionizer.stream_spec.effect import Verdict
from support.fixtures.reviewed import Reviewed
from support.places import known

WINDOW = "Sun 03:00-05:00"
INSIDE = int(datetime(2026, 11, 29, 4, tzinfo=UTC).timestamp() * 1000)
END = INSIDE + 3_600_000
OUTSIDE = END
SETTLED = (Verdict.IN_PLACE, Verdict.MIGRATE)
verdicts = st.lists(st.sampled_from([each for each in Verdict if each is not Verdict.NONE]), min_size=1, max_size=4)
moments = st.integers(INSIDE - 8 * 24 * 3_600_000, INSIDE + 8 * 24 * 3_600_000)


def waiting(found: Iterable[Verdict], problem: str | None = None) -> WaitingUpgrade:
    differences = tuple(Difference(f"field{i}", "changed", 1, 2, each) for i, each in enumerate(found))
    return WaitingUpgrade(stream="clicks", digest="d1", differences=differences, problem=problem)


def upgrades(policy: str, window: str | None = WINDOW) -> Upgrades:
    return Upgrades.model_validate({"policy": policy, "window": window})


def ends(opening: Opening | None) -> int | None:
    return None if opening is None else opening.until


@pytest.mark.parametrize(
    ("policy", "until"),
    [("approve", END), ("apply", END), ("refuse", None)],
)
def test_the_policy_decides_in_the_window(policy: str, until: int | None) -> None:
    found = waiting(SETTLED)
    assert ends(decide_upgrade(INSIDE, upgrades(policy), found)) == until
    assert decide_upgrade(OUTSIDE, upgrades(policy), found) is None


@pytest.mark.parametrize("problem", [None, "migration 0003 was edited"])
def test_an_alert_has_the_counts_or_the_problem_and_not_its_kind(problem: str | None) -> None:
    found = waiting([Verdict.PARTIAL, Verdict.IN_PLACE], problem)
    assert "waits" not in found.counts
    assert ("1 partial" in found.counts, str(problem) in found.counts) == (problem is None, problem is not None)
    assert found.counted.endswith(found.counts)


def test_without_a_window_nothing_begins() -> None:
    assert decide_upgrade(INSIDE, Upgrades(), waiting(SETTLED)) is None


@given(moments, st.sampled_from([*UpgradePolicy]), verdicts)
def test_nothing_begins_that_a_user_must_settle_or_outside_the_window(
    now: int, policy: str, found: list[Verdict]
) -> None:
    until = ends(decide_upgrade(now, upgrades(policy), waiting(found)))
    if until is not None:
        assert now < until
        assert set(found) <= {*SETTLED}
        assert policy != "refuse"
    may_begin = upgrades(policy).open_until(now) is not None and set(found) <= {*SETTLED} and policy != "refuse"
    assert (until is not None) is may_begin, "what may begin does begin"


@given(moments, st.sampled_from([*UpgradePolicy]))
def test_what_has_no_plan_begins_nothing(now: int, policy: str) -> None:
    assert decide_upgrade(now, upgrades(policy), waiting((), "migration x was edited")) is None


LISTED = ListApproval(digest="d1", by="olga", until=OUTSIDE + 1)


@pytest.mark.parametrize("policy", ["approve", "apply", "refuse"])
@pytest.mark.parametrize("now", [INSIDE, OUTSIDE])
def test_an_approved_list_opens_at_any_hour_and_asks_nobody(policy: str, now: int) -> None:
    listed = replace(waiting(SETTLED), approval=LISTED)
    opening = known(decide_upgrade(now, upgrades(policy), listed))
    assert (opening.until, opening.approver) == (LISTED.until, "olga, in a list")
    assert decide_upgrade(LISTED.until, upgrades(policy), listed) is None, "it is over"
    assert "olga" in what_follows(listed, upgrades(policy), now)
    assert decide_upgrade(now, upgrades(policy), replace(waiting([Verdict.PARTIAL]), approval=LISTED)) is None


@pytest.mark.parametrize(
    ("policy", "window", "found", "now", "part"),
    [
        ("apply", WINDOW, SETTLED, OUTSIDE, "it is carried out from 2026-12-06 03:00:00 UTC on"),
        ("apply", WINDOW, SETTLED, INSIDE, "it is carried out until 2026-11-29 05:00:00 UTC"),
        ("approve", WINDOW, SETTLED, INSIDE, "put before a user"),
        ("apply", WINDOW, (Verdict.PARTIAL,), INSIDE, "`sessionizer upgrade clicks` shows the plan"),
        ("refuse", None, SETTLED, INSIDE, "`sessionizer upgrade clicks` shows the plan"),
    ],
)
def test_what_follows_is_told(policy: str, window: str | None, found: tuple[Verdict, ...], now: int, part: str) -> None:
    assert part in what_follows(waiting(found), upgrades(policy, window), now)


WAITS, RUNS, DONE, FAILED = UpgradeState


def members(text: str) -> list[Member]:
    """Members such as ``a0:waits c0?:runs``: the stream, its wave, whether it asks a user, its state."""
    found = []
    for word in text.split():
        name, _, state = word.partition(":")
        found.append(Member(stream=name[0], wave=int(name[1]), state=UpgradeState(state), asks=name.endswith("?")))
    return found


@pytest.mark.parametrize(
    ("found", "pace", "begin"),
    [
        ("", Pace(), ""),
        ("b0:waits a0:waits c0:waits", Pace(), "a"),
        ("b0:waits a0:waits c0:waits", Pace(at_once=2), "ab"),
        ("a0:runs b0:waits", Pace(), ""),
        ("a0:runs b0:waits c0:waits", Pace(at_once=2), "b"),
        ("a0:done b0:waits", Pace(), "b"),
        # a wave begins when the one before is over
        ("a1:waits b0:waits", Pace(at_once=9), "b"),
        ("a1:waits b0:runs", Pace(at_once=9), ""),
        ("a2:waits b0:done", Pace(at_once=9), "a"),
        # a failure stops the others, however far they are
        ("a0:failed b0:waits c1:waits", Pace(at_once=9), ""),
        ("a0:failed b0:waits c1:waits", Pace(at_once=9, stop_after=2), "b"),
        ("a0:failed b0:failed c1:waits", Pace(at_once=9, stop_after=2), ""),
        ("a0:failed b0:runs", Pace(), ""),
        # users set the pace of those that they approve
        ("a0?:waits b0?:waits c0:waits d0:waits", Pace(), "abc"),
        ("a0?:runs b0:waits", Pace(), "b"),
        ("a0?:runs b1:waits", Pace(), ""),
        ("a0?:waits b1?:waits", Pace(), "a"),
    ],
)
def test_the_next_upgrades_of_a_window(found: str, pace: Pace, begin: str) -> None:
    chosen = choose_next(members(found), pace)
    assert "".join(chosen.begin) == begin
    assert (chosen.held is not None) == (not begin and "waits" in found)


fleets = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12)


@given(fleets, st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_fleet_is_upgraded_in_order_and_stops(
    fleet: list[tuple[int, bool]], at_once: int, stop_after: int, draw: Random
) -> None:
    """Whatever ends when: no wave overlaps another, and no upgrade begins after the last allowed failure."""
    waves = {f"s{number:02}": wave for number, (wave, _) in enumerate(fleet)}
    fails = {f"s{number:02}" for number, (_, failing) in enumerate(fleet) if failing}
    states = dict.fromkeys(waves, WAITS)
    while True:
        found = [Member(stream=name, wave=waves[name], state=state) for name, state in states.items()]
        states |= dict.fromkeys(choose_next(found, Pace(at_once=at_once, stop_after=stop_after)).begin, RUNS)
        running = sorted(name for name, state in states.items() if state is RUNS)
        assert len(running) <= at_once
        assert len({waves[name] for name in running}) <= 1
        if not running:
            break
        ended = draw.choice(running)
        states[ended] = FAILED if ended in fails else DONE
    failed = [name for name, state in states.items() if state is FAILED]
    assert len(failed) < stop_after + at_once
    assert WAITS not in states.values() or len(failed) >= stop_after
    last = max((waves[name] for name, state in states.items() if state is not WAITS), default=0)
    assert all(waves[name] >= last for name, state in states.items() if state is WAITS)


def test_a_pace_is_read_from_the_environment() -> None:
    assert Pace.from_environment({}) == Pace(at_once=1, stop_after=1)
    assert Pace.from_environment({AT_ONCE: "3", STOP_AFTER: "2"}) == Pace(at_once=3, stop_after=2)
    for name, value in ((AT_ONCE, "all"), (STOP_AFTER, "0")):
        with pytest.raises(InvalidSpec) as refused:
            Pace.from_environment({name: value})
        assert (refused.value.field, refused.value.value) == (name, value)


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
