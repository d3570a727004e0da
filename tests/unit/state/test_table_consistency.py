"""A driver goes on only where state and tables agree: by values, and in a model of kills and copies."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field

import pytest

from sessionizer.errors import DataAway, RowsMissing, SessionizerError, StateBehindTables
from sessionizer.state.lineages.table_changes import StreamState, TableState, find_inconsistency, unknown_changes

L0, L1, L2 = "20261120T105501-111111", "20261121T105501-3fa9c2", "20261122T105501-222222"


def found(
    batches: dict[str, int] | None, written: dict[str, int] | None = None, begun: int | None = 5, over: int | None = 5
) -> SessionizerError | None:
    state = StreamState("clicks", L1, begun, over, frozenset({L0, L1}))
    return find_inconsistency(state, TableState("sessions", "/lake/sessions", batches, written or {}))


@pytest.mark.parametrize(
    ("batches", "written", "begun", "over"),
    [
        ({}, {}, None, None),  # it has only begun
        ({}, {}, 5, 5),  # no batch brought a row
        (None, {}, 5, 5),  # and the table was never made
        ({L1: 3}, {L1: 3}, 5, 5),  # the newest batches brought none
        ({L1: 5}, {L1: 5}, 5, 5),
        ({L1: 6}, {L1: 5}, 6, 5),  # killed after the table's commit, before it was noted
        ({L1: 6}, {L1: 6}, 6, 5),  # and before the checkpoint's
        ({L1: 5}, {L1: 6}, 6, 5),  # noted, and the table lost it: it is run again
        ({L0: 90, L1: 0}, {L0: 90}, 0, 0),  # a new lineage, after a verb
    ],
)
def test_what_a_lineage_comes_to_by_itself_agrees(
    batches: dict[str, int] | None, written: dict[str, int], begun: int | None, over: int | None
) -> None:
    assert found(batches, written, begun, over) is None


@pytest.mark.parametrize(("newest", "begun"), [(6, 5), (7, 6), (0, None)])
def test_a_table_that_is_ahead_of_what_was_begun_is_refused(newest: int, begun: int | None) -> None:
    error = found({L1: newest}, {}, begun, 5)
    assert isinstance(error, StateBehindTables)
    assert (error.lineage, error.batch_id, error.known) == (L1, newest, -1 if begun is None else begun)


@pytest.mark.parametrize("written", [{L1: 5}, {L0: 3}])
def test_a_table_with_rows_that_is_gone_is_away(written: dict[str, int]) -> None:
    error = found(None, written)
    assert isinstance(error, DataAway)
    assert error.location == "/lake/sessions"


@pytest.mark.parametrize(
    ("batches", "written", "lineage", "batch", "newest"),
    [
        ({L1: 4}, {L1: 5}, L1, 5, 4),
        ({}, {L1: 5}, L1, 5, None),
        ({L1: 5}, {L1: 5, L0: 90}, L0, 90, None),
        ({L0: 89, L1: 5}, {L1: 5, L0: 90}, L0, 90, 89),
    ],
)
def test_a_table_without_rows_that_were_noted_is_refused(
    batches: dict[str, int], written: dict[str, int], lineage: str, batch: int, newest: int | None
) -> None:
    error = found(batches, written)
    assert isinstance(error, RowsMissing)
    assert (error.lineage, error.batch_id, error.found) == (lineage, batch, newest)


def test_only_a_later_lineage_that_is_not_known_is_a_sign_of_an_older_home() -> None:
    state = StreamState("clicks", L1, 5, 5, frozenset({L1}), L1)
    table = TableState("sessions", "/lake/sessions", {L0: 9, L1: 5, L2: 3, "a-job-of-theirs": 4}, {})
    assert unknown_changes(state, table) == [L2]
    assert unknown_changes(StreamState("clicks", L1, 5, 5, frozenset({L1, L2}), L1), table) == []
    assert unknown_changes(StreamState("clicks", "", None, None, frozenset()), table) == [L0, L1, L2]


def test_a_later_deletion_by_an_operation_that_is_not_known_is_a_sign_of_an_older_home() -> None:
    for made in ("deletion", "operation"):
        table = TableState("sessions", "/lake/sessions", {f"{made}-{L0}": 0, L1: 5, f"{made}-{L2}": 0}, {})
        assert unknown_changes(StreamState("clicks", L1, 5, 5, frozenset({L1}), L1), table) == [L2]
        assert unknown_changes(StreamState("clicks", L1, 5, 5, frozenset({L1, L2}), L1), table) == []


@dataclass
class World:
    """A stream whose batches write by themselves: ``rows`` are of a table, by batch, and the rest is its home."""

    begun: int = -1
    over: int = -1
    noted: dict[str, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    newest: int = -1

    def run(self, chance: random.Random, source: int) -> None:
        """Run one batch that reads ``source`` and may be killed between any two of its steps."""
        batch = self.over + 1
        if self.begun < batch:
            self.begun, self.read[batch] = batch, source
        killed = chance.randrange(6)
        if killed == 0:
            return
        if self.read[batch] % 3 and batch > self.newest:  # every third batch brings no row
            self.rows[batch], self.newest = self.read[batch], batch
        if killed == 1:
            return
        if self.read[batch] % 3:
            self.noted[L1] = batch
        if killed > 2:
            self.over = batch

    def with_home_of(self, older: World) -> World:
        copy = deepcopy(older)
        copy.rows, copy.newest = self.rows, self.newest
        return copy

    @property
    def refused(self) -> SessionizerError | None:
        begun, over = (None if batch < 0 else batch for batch in (self.begun, self.over))
        state = StreamState("clicks", L1, begun, over, frozenset({L1}))
        batches = {L1: self.newest} if self.newest >= 0 else {}
        return find_inconsistency(state, TableState("sessions", "/lake/sessions", batches, self.noted))

    @property
    def is_whole(self) -> bool:
        """Whether each batch that is over has its rows in the table, and no other's."""
        wanted = {batch: read for batch, read in self.read.items() if batch <= self.over and read % 3}
        return {batch: read for batch, read in self.rows.items() if batch <= self.over} == wanted


def test_kills_are_never_refused_and_an_old_home_that_would_lose_rows_always_is() -> None:
    for seed in range(300):
        _kill_and_put_back_an_old_home(random.Random(seed))


def _kill_and_put_back_an_old_home(chance: random.Random) -> None:
    world, source = World(), iter(range(1, 10_000))
    for _ in range(chance.randrange(8)):
        world.run(chance, next(source))
        assert world.refused is None
    copy = deepcopy(world)
    for _ in range(chance.randrange(8)):
        world.run(chance, next(source))
        assert world.refused is None
    world = world.with_home_of(copy)
    if world.refused is None:
        for _ in range(8):
            world.run(chance, next(source))
        assert world.is_whole
    else:
        assert isinstance(world.refused, StateBehindTables)
