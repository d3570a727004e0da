"""Whether a new lineage holds what was handed over to it: told by the digests of the key groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class GroupDigest(NamedTuple):
    """How many events a key group holds, and a checksum of them that their order does not change."""

    events: int
    checksum: int


def disagreement(handed_over: Mapping[int, GroupDigest], found: Mapping[int, GroupDigest]) -> str | None:
    """What differs in the key groups of a new lineage, by their numbers there; None if nothing does."""
    nothing = GroupDigest(0, 0)
    for group in sorted({*handed_over, *found}):
        before, now = handed_over.get(group, nothing), found.get(group, nothing)
        if before.events != now.events:
            return f"key group {group} should hold {before.events} open events and holds {now.events}"
        if before.checksum != now.checksum:
            return f"the {now.events} open events of key group {group} are others than were handed over"
    return None
