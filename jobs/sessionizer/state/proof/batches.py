"""Choice of the recorded batches that are replayed: the newest that everything is still there for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from sessionizer.errors import NothingToProve

BATCHES: Final = 10
"""Batches that are replayed unless the user says how many."""


@dataclass(frozen=True, slots=True)
class ReplayedBatches:
    """The batches from ``first`` to ``last``, replayed after a fork at the batch before. ``note``: why no more."""

    first: int
    last: int
    note: str | None = None

    @property
    def fork_at(self) -> int:
        """The committed batch with whose state the replay begins."""
        return self.first - 1

    @property
    def ids(self) -> tuple[int, ...]:
        """All batches, oldest first."""
        return tuple(range(self.first, self.last + 1))


def choose_batches(
    stream: str,
    committed: Collection[int],
    count: int,
    first: int | None,
    obstacle: Callable[[int], str | None],
) -> ReplayedBatches:
    """Choose the newest ``count`` of the ``committed`` batches, or as many from the batch ``first`` on.

    ``obstacle`` says why a batch cannot be replayed, None if it can. Without ``first`` the choice begins after the
    newest batch with an obstacle. Raises NothingToProve.
    """
    replayable = _newest_run(committed)
    if not replayable:
        raise NothingToProve(stream, "a replay begins after a batch that is over, and fewer than two are kept")
    if first is not None:
        return _named_batches(stream, replayable, first, count, obstacle)
    wanted = replayable[-count:]
    for batch in reversed(wanted):
        found = obstacle(batch)
        if found is not None:
            if batch == wanted[-1]:
                raise NothingToProve(stream, f"batch {batch} cannot be replayed: {found}")
            return ReplayedBatches(batch + 1, wanted[-1], f"batch {batch} and those before are left out: {found}")
    return ReplayedBatches(wanted[0], wanted[-1])


def _named_batches(
    stream: str, replayable: list[int], first: int, count: int, obstacle: Callable[[int], str | None]
) -> ReplayedBatches:
    if first not in replayable:
        known = f"{replayable[0]} to {replayable[-1]}"
        raise NothingToProve(stream, f"batch {first} is not among those that can be replayed: {known}")
    wanted = [batch for batch in replayable if batch >= first][:count]
    for batch in wanted:
        found = obstacle(batch)
        if found is not None:
            raise NothingToProve(stream, f"batch {batch} cannot be replayed: {found}")
    return ReplayedBatches(wanted[0], wanted[-1])


def _newest_run(committed: Collection[int]) -> list[int]:
    """Return the newest batches without a gap, without the first of them, after which a replay begins."""
    ordered = sorted(committed, reverse=True)
    run = [batch for number, batch in enumerate(ordered) if batch == ordered[0] - number]
    return sorted(run)[1:]
