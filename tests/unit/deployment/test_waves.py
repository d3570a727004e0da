"""The order of upgrades in a window: by waves, a few at once, and no more after failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.deployment.waiting import AT_ONCE, STOP_AFTER, Member, Pace, UpgradeState, choose_next
from sessionizer.errors import InvalidSpec

if TYPE_CHECKING:
    from random import Random

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
