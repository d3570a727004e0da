"""A difference that waits: told once, begun in its window only, and never what a user must accept first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.deployment.differences import Difference
from sessionizer.deployment.waiting import WaitingUpgrade, WindowDecision, decide_upgrade, what_follows
from sessionizer.stream_spec.document.stream import UpgradePolicy, Upgrades
from sessionizer.stream_spec.effect import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

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


@pytest.mark.parametrize(
    ("policy", "until"),
    [("approve", END), ("apply", END), ("refuse", None)],
)
def test_the_policy_decides_in_the_window(policy: str, until: int | None) -> None:
    found = waiting(SETTLED)
    assert decide_upgrade(INSIDE, upgrades(policy), found, "d1") == WindowDecision(tell=False, until=until)
    assert decide_upgrade(OUTSIDE, upgrades(policy), found, "d1") == WindowDecision()
    assert decide_upgrade(OUTSIDE, upgrades(policy), found, None) == WindowDecision(tell=True)


@pytest.mark.parametrize("problem", [None, "migration 0003 was edited"])
def test_an_alert_has_the_counts_or_the_problem_and_not_its_kind(problem: str | None) -> None:
    found = waiting([Verdict.PARTIAL, Verdict.IN_PLACE], problem)
    assert "waits" not in found.counts
    assert ("1 partial" in found.counts, str(problem) in found.counts) == (problem is None, problem is not None)
    assert found.counted.endswith(found.counts)


def test_without_a_window_it_is_told_and_nothing_begins() -> None:
    assert decide_upgrade(INSIDE, Upgrades(), waiting(SETTLED), None) == WindowDecision(tell=True)


@given(moments, st.sampled_from([*UpgradePolicy]), verdicts, st.sampled_from([None, "d1", "d0"]))
def test_nothing_begins_that_a_user_must_settle_or_outside_the_window(
    now: int, policy: str, found: list[Verdict], told: str | None
) -> None:
    decision = decide_upgrade(now, upgrades(policy), waiting(found), told)
    begins = decision.until is not None
    if decision.until is not None:
        assert now < decision.until
        assert set(found) <= {*SETTLED}
        assert policy != "refuse"
    assert decision.tell is (told != "d1")
    may_begin = upgrades(policy).open_until(now) is not None and set(found) <= {*SETTLED} and policy != "refuse"
    assert begins is may_begin, "what may begin does begin"


@given(moments, st.sampled_from([*UpgradePolicy]), st.sampled_from([None, "d1"]))
def test_nothing_that_waits_is_nothing_to_do(now: int, policy: str, told: str | None) -> None:
    assert decide_upgrade(now, upgrades(policy), None, told) == WindowDecision()


@given(moments, st.sampled_from([*UpgradePolicy]))
def test_what_has_no_plan_begins_nothing_and_is_told(now: int, policy: str) -> None:
    decision = decide_upgrade(now, upgrades(policy), waiting((), "migration x was edited"), None)
    assert decision == WindowDecision(tell=True)


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
