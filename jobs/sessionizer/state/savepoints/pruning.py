"""Plan of the savepoints to remove, from the facts on each. Pure.

One complete savepoint of each kind always stays. Each one also stays that a lineage started from, that a process reads,
or that an operation still needs. Those that were never completed go unless they are being made.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.state.savepoints.savepoint_state import SavepointState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

LEAST_KEPT: Final = 1
"""Fewest complete savepoints of each kind that stay."""
STARTED_FROM: Final = "a lineage started from it"
BEING_READ: Final = "somebody reads it"
GONE_ON_WITH: Final = "an operation that is not over needs it"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A savepoint as pruning sees it. ``at``: when it was completed or begun (epoch ms), None if unknown.

    ``kind``: of a complete one.
    """

    id: str
    state: SavepointState
    at: int | None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """A limit: complete ones stay while among the newest ``count`` of their kind, or younger than ``age_ms``."""

    count: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class PruningVerdict:
    """The decision on savepoint ``id``: whether it ``goes``, and the reason."""

    id: str
    goes: bool
    because: str


def pruning_plan(
    candidates: Sequence[Candidate],
    origins: Collection[str],
    in_use: Collection[str],
    policy: Policy,
    now: int,
    *,
    begun: Collection[str] = (),
) -> list[PruningVerdict]:
    """Decide on each savepoint, in their order.

    ``origins``: savepoints that a lineage started from. ``in_use``: those that are being read. ``begun``: those of an
    unfinished operation, which may have taken rows already and reads them again when it is resumed.
    """
    rank = _ranks(candidates)
    needed = {
        **dict.fromkeys(origins, STARTED_FROM),
        **dict.fromkeys(begun, GONE_ON_WITH),
        **dict.fromkeys(in_use, BEING_READ),
    }
    return [_verdict(each, rank.get(each.id), needed.get(each.id), policy, now) for each in candidates]


def _ranks(candidates: Sequence[Candidate]) -> dict[str, int]:
    """Return the place of each complete one among those of its kind, the newest first."""
    found: dict[str, int] = {}
    of_kind = Counter[str]()
    for each in sorted(candidates, key=lambda candidate: (-(candidate.at or 0), candidate.id)):
        if each.state is SavepointState.COMPLETE:
            found[each.id] = of_kind[each.kind]
            of_kind[each.kind] += 1
    return found


def _verdict(candidate: Candidate, rank: int | None, needed: str | None, policy: Policy, now: int) -> PruningVerdict:
    """Decide on a savepoint. ``rank``: of a complete one, from 0.

    ``needed``: why it must stay, whatever the policy says.
    """
    if candidate.state is SavepointState.MAKING:
        kept: str | None = "it is being made"
    else:
        kept = needed or _kept_by_policy(candidate, rank, policy, now)
    if kept is not None:
        return PruningVerdict(candidate.id, goes=False, because=kept)
    old = f"it is {candidate.state}" if rank is None else f"it is old, and number {rank + 1} of the newest"
    return PruningVerdict(candidate.id, goes=True, because=old)


def _kept_by_policy(candidate: Candidate, rank: int | None, policy: Policy, now: int) -> str | None:
    if rank is None:
        return None
    if rank < max(policy.count, LEAST_KEPT):
        return f"it is number {rank + 1} of the newest"
    if candidate.at is None or now - candidate.at < policy.age_ms:
        return "it is young"
    return None
