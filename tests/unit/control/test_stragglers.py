"""Stragglers: which key group, key or partition holds up a batch, and when it is named."""

from dataclasses import replace

import pytest

from sessionizer.control.history.straggler import (
    GroupTime,
    Straggler,
    StragglerKind,
    follow,
    partition_behind,
    slow_group,
)

AT = 1_790_000_000_000


def groups(*took_ms: int, **heavy: object) -> list[GroupTime]:
    first, *others = took_ms
    heaviest = GroupTime(group=0, took_ms=first, **heavy)  # type: ignore[arg-type]
    return [heaviest, *(GroupTime(group=number + 1, took_ms=took) for number, took in enumerate(others))]


@pytest.mark.parametrize(
    ("took_ms", "batch_ms", "found"),
    [
        ((9_000, 100, 100, 200), 10_000, "key_group:0"),
        ((9_000, 4_000, 100, 200), 10_000, "key_group:0"),
        ((9_000, 8_900, 8_000, 200), 10_000, None),
        ((9_000, 100, 100, 200), 30_000, None),
        ((1_900, 10, 10, 10), 2_000, None),
        ((9_000,), 10_000, None),
        ((0, 0), 0, None),
    ],
    ids=["slow", "two are slow", "all are slow", "another part is slow", "a short batch", "alone", "no work"],
)
def test_the_key_group_that_holds_up_a_batch(took_ms: tuple[int, ...], batch_ms: int, found: str | None) -> None:
    straggler = slow_group(groups(*took_ms), batch_ms, AT)
    assert (straggler.label if straggler else None) == found


@pytest.mark.parametrize(("events", "found"), [(5_000, "key:bot"), (90, "key_group:0")])
def test_a_key_far_beyond_the_others_is_named_instead_of_its_group(events: int, found: str) -> None:
    straggler = slow_group(groups(9_000, 10, 10, key="bot", key_events=events, others_events=9), 10_000, AT)
    assert straggler is not None
    assert (straggler.label, straggler.group) == (found, 0)


@pytest.mark.parametrize(
    ("behind", "found"),
    [
        ({"c-0": 50_000, "c-1": 10, "c-2": 0}, "partition:c-0"),
        ({"c-0": 50_000, "c-1": 40_000, "c-2": 30_000}, None),
        ({"c-0": 900, "c-1": 0}, None),
        ({"c-0": 50_000}, None),
        ({}, None),
    ],
    ids=["one is behind", "all are behind", "a few events", "alone", "no Kafka"],
)
def test_the_partition_that_falls_behind(behind: dict[str, int], found: str | None) -> None:
    straggler = partition_behind(behind, AT)
    assert (straggler.label if straggler else None) == found


def test_a_straggler_is_named_after_two_batches_and_keeps_its_beginning() -> None:
    def seen(name: str, at: int) -> Straggler:
        return Straggler(kind=StragglerKind.KEY_GROUP, name=name, since=at)

    first = follow(None, seen("3", AT))
    assert first is not None
    assert not first.is_named
    second = follow(first, seen("3", AT + 9))
    assert second is not None
    assert (second.is_named, second.since, second.batches) == (True, AT, 2)
    other = follow(second, seen("4", AT + 20))
    assert other is not None
    assert (other.is_named, other.since) == (False, AT + 20)
    assert follow(other, None) is None


def test_a_batch_in_which_its_group_did_not_merge_says_nothing_of_a_straggler() -> None:
    def seen(at: int) -> Straggler | None:
        return slow_group(groups(9_000, 10, 10, key="bot", key_events=5_000), 10_000, at)

    stored = [replace(each, merged=False) for each in groups(20, 10, 10)]
    first = follow(None, seen(AT))
    between = follow(first, None, stored)
    assert between == first
    again = follow(between, seen(AT + 9), stored)
    assert again is not None
    assert (again.label, again.is_named, again.since) == ("key:bot", True, AT)
    assert follow(again, None, groups(20, 10, 10)) is None, "it merged, and was quick"
    partition = Straggler(kind=StragglerKind.PARTITION, name="c-0", since=AT)
    assert follow(again, partition, stored) == again
    assert follow(partition, None, stored) is None
    other = replace(again, group=1, name="2", batches=1)
    assert follow(again, other, stored) == other
