"""The batches that are replayed: the newest without an obstacle, or those that a user names."""

import pytest

from sessionizer.errors import NothingToProve
from sessionizer.state.proof.batches import ReplayedBatches, choose_batches
from support.fixtures.reviewed import Reviewed

KEPT = range(40, 61)


def chosen(count: int = 10, first: int | None = None, *, gone: tuple[int, ...] = ()) -> ReplayedBatches:
    return choose_batches("clicks", KEPT, count, first, lambda batch: "it is gone" if batch in gone else None)


def test_the_newest_are_replayed() -> None:
    found = chosen(3)
    assert (found.ids, found.fork_at, found.note) == ((58, 59, 60), 57, None)


def test_no_more_than_are_kept() -> None:
    assert chosen(500).ids == tuple(range(41, 61)), "the oldest has no state before it"


def test_batches_from_one_on() -> None:
    assert chosen(4, 50).ids == (50, 51, 52, 53)
    assert chosen(400, 59).ids == (59, 60)


@pytest.mark.parametrize("first", [40, 12, 61])
def test_a_batch_that_is_not_kept_is_refused(first: int) -> None:
    with pytest.raises(NothingToProve, match="41 to 60"):
        chosen(3, first)


def test_a_choice_begins_after_an_obstacle() -> None:
    found = chosen(10, gone=(52, 55))
    assert (found.first, found.last) == (56, 60)
    assert found.note is not None
    assert "batch 55" in found.note


def test_an_obstacle_is_refused_by_name(reviewed: Reviewed) -> None:
    with pytest.raises(NothingToProve) as raised:
        chosen(10, gone=(60,))
    reviewed(raised.value)
    with pytest.raises(NothingToProve) as raised:
        chosen(10, 50, gone=(52,))
    reviewed(raised.value)


@pytest.mark.parametrize("committed", [[], [7], [3, 4, 9]])
def test_a_replay_needs_a_batch_before(committed: list[int]) -> None:
    with pytest.raises(NothingToProve):
        choose_batches("clicks", committed, 5, None, lambda _: None)


def test_a_gap_ends_the_choice() -> None:
    assert choose_batches("clicks", [1, 2, 3, 7, 8, 9], 50, None, lambda _: None).ids == (8, 9)
